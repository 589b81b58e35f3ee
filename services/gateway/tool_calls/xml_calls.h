// Calls whose arguments are elements in the manner of XML, each value a plain text. The tool's schema
// tells what type a value has. Qwen3-Coder, GLM and DeepSeek V3.2 write them so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/tool_calls/argument_types.h"
#include "services/gateway/tool_calls/call_reader.h"
#include "services/gateway/tool_calls/tool_choice.h"

namespace sluice::gateway {

// The tags of a format. Empty ones are not written.
struct XmlTags {
  const char* name_begin;
  const char* name_end;  // empty: a line break, or the next tag
  const char* key_begin;
  const char* key_end;
  const char* value_begin;
  const char* value_end;
  const char* call_end;
  const char* outer_end;  // behind call_end
  bool has_lines;         // a value has a line break before and behind it
  // Behind a key stands whether its value is a string: KEY" string="true.
  bool has_string_attribute = false;
  bool has_section = false;  // several calls may stand before outer_end
};

// Qwen3-Coder, behind <tool_call>: <function=NAME><parameter=KEY>VALUE</parameter></function>
// </tool_call>, each tag and value on a line of its own.
extern const XmlTags kQwenXmlTags;
// GLM 4.5 and later, behind <tool_call>: NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>
// </tool_call>, with line breaks before tags or without.
extern const XmlTags kGlmTags;

// DeepSeek V3.2, in a section between <｜DSML｜function_calls> and </｜DSML｜function_calls>:
// <｜DSML｜invoke name="NAME"><｜DSML｜parameter name="KEY" string="true">VALUE</｜DSML｜parameter>
// </｜DSML｜invoke>. A value that is no string is JSON.
extern const XmlTags kDsmlTags;
inline constexpr char kDsmlSectionBegin[] = "<｜DSML｜function_calls>";

// Arguments that are strings are handed on as they come, others once they are whole.
class XmlCallReader : public CallReader {
 public:
  // `begun_by` is the tag that was read: <tool_call>, that of a section, or that of a name. `tools`
  // are those that were offered, and outlive the reader.
  XmlCallReader(const XmlTags& tags, absl::string_view begun_by,
                const std::vector<OfferedTool>& tools)
      : tags_(tags),
        tools_(tools),
        state_(begun_by == tags.name_begin ? State::kName : State::kBeginning) {}

  bool Read(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces) override;

 private:
  using Pieces = std::vector<ToolCallPiece>;
  enum class State {
    kBeginning,
    kName,
    kNamed,
    kBetween,
    kKey,
    kValueBegin,
    kValue,
    kAfter,
    kEnded
  };
  enum class Found { kYes, kNo, kNotYet };

  // Each is true where the state has changed.
  bool ReadBeginning(std::string& text, bool at_end);
  bool ReadName(std::string& text, bool at_end);
  bool ReadNamed(std::string& text, bool at_end, Pieces& pieces);
  bool ReadBetween(std::string& text, bool at_end, Pieces& pieces);
  bool ReadKey(std::string& text, bool at_end, Pieces& pieces);
  bool ReadValueBegin(std::string& text, bool at_end, Pieces& pieces);
  bool ReadValue(std::string& text, bool at_end, Pieces& pieces);
  bool ReadAfter(std::string& text, bool at_end);

  // Whether the tag is next behind white space, which is removed, as is the tag.
  Found Take(std::string& text, const char* tag, bool at_end);
  void BeginValue(Pieces& pieces);
  void EndCall(Pieces& pieces);

  const XmlTags tags_;
  const std::vector<OfferedTool>& tools_;
  State state_;
  std::string name_;
  std::string key_;
  bool is_string_ = false;                      // as the attribute of the key says
  std::unique_ptr<const ArgumentTypes> types_;  // of the call that is read
  int num_arguments_ = 0;
  bool streams_value_ = false;
  size_t num_searched_ = 0;  // bytes of the value in which its end was looked for
  bool has_value_ = false;   // a part of the value that is read was handed on
};

}  // namespace sluice::gateway
