#include "clients/cli/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <utility>

namespace sluice {
namespace {

constexpr char kPrompt[] = "> ";
constexpr int kHistorySize = 1000;
// A terminal that is told so puts a paste between the two marks.
constexpr char kMarkPastes[] = "\x1b[?2004h";
constexpr char kMarkNoPastes[] = "\x1b[?2004l";
constexpr wchar_t kPasteEnd[] = L"\x1b[201~";

volatile sig_atomic_t terminal_resized = 0;

void OnResize(int) { terminal_resized = 1; }

// Waits for input; OnResize() runs meanwhile where the terminal was resized.
bool WaitForInput(int fd) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  sigdelset(&mask, SIGWINCH);
  pollfd input = {fd, POLLIN, 0};
  return ppoll(&input, 1, nullptr, &mask) > 0;
}

// Bytes of the UTF-8 character that begins with this one.
int CharacterBytes(unsigned char lead) {
  if (lead >= 0xF0) return 4;
  if (lead >= 0xE0) return 3;
  return lead >= 0xC0 ? 2 : 1;
}

bool ReadByte(int fd, char* byte) {
  ssize_t count;
  while ((count = read(fd, byte, 1)) < 0 && errno == EINTR) {
  }
  return count == 1;
}

// Terminals send a carriage return for the Enter key, in pastes too.
std::wstring WithLineBreaks(const std::wstring& pasted) {
  std::wstring text;
  for (size_t i = 0; i < pasted.size(); ++i) {
    if (pasted[i] == L'\n' && i > 0 && pasted[i - 1] == L'\r') continue;
    text += pasted[i] == L'\r' ? L'\n' : pasted[i];
  }
  return text;
}

class LineEditor final : public LineReader {
 public:
  LineEditor(std::FILE* terminal, bool owned, std::string history_file)
      : terminal_(terminal), owned_(owned), history_file_(std::move(history_file)) {
    editor_ = el_init("sluice", stdin, terminal_, terminal_);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(
        editor_, EL_PROMPT, +[](EditLine*) { return const_cast<char*>(kPrompt); });
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_GETCFN, &ReadCharacter);
    el_set(editor_, EL_ADDFN, "sluice-paste", "insert a paste", &Paste);
    el_set(editor_, EL_ADDFN, "sluice-interrupt", "drop the line", &Interrupt);
    el_set(editor_, EL_BIND, "\\e[200~", "sluice-paste", nullptr);
    // Ctrl-C is a key like others while a line is edited.
    el_set(editor_, EL_SETTY, "-d", "-isig", nullptr);
    el_set(editor_, EL_BIND, "^C", "sluice-interrupt", nullptr);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(editor_, nullptr);
    StartHistory();
    struct sigaction action = {};
    action.sa_handler = &OnResize;
    sigaction(SIGWINCH, &action, nullptr);
  }

  ~LineEditor() override {
    history_end(history_);
    el_end(editor_);
    if (owned_) std::fclose(terminal_);
  }

  Result Read(std::string* line) override {
    interrupted_ = false;
    Write(kMarkPastes);
    el_set(editor_, EL_PREP_TERM, 1);  // before the prompt: what is typed at it comes as keys
    int count = 0;
    const char* text = el_gets(editor_, &count);
    Write(kMarkNoPastes);
    if (interrupted_) {
      Write("^C\n");
      return Result::kInterrupted;
    }
    if (text == nullptr || count <= 0) {
      Write("\n");
      return Result::kEnd;
    }
    line->assign(text, static_cast<size_t>(count));
    if (line->back() == '\n') line->pop_back();
    Remember(*line);
    return Result::kLine;
  }

 private:
  static LineEditor& Of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
  }

  static unsigned char Interrupt(EditLine* editor, wint_t) {
    Of(editor).interrupted_ = true;
    return CC_EOF;
  }

  static unsigned char Paste(EditLine* editor, wint_t) {
    const std::wstring end = kPasteEnd;
    std::wstring text;
    wchar_t character = 0;
    while (el_wgetc(editor, &character) == 1) {
      text += character;
      if (text.size() >= end.size() &&
          text.compare(text.size() - end.size(), end.size(), end) == 0) {
        text.resize(text.size() - end.size());
        break;
      }
    }
    text = WithLineBreaks(text);
    if (!text.empty()) el_winsertstr(editor, text.c_str());
    return CC_REFRESH;
  }

  // The editor's source of characters: 1 where there is one, 0 at the end, -1 for an error.
  static int ReadCharacter(EditLine* editor, wchar_t* character) {
    while (!WaitForInput(STDIN_FILENO)) {
      if (errno != EINTR) return -1;
      if (!std::exchange(terminal_resized, 0)) continue;
      el_resize(editor);
      Of(editor).Write("\r\x1b[J");
      el_set(editor, EL_REFRESH);
    }
    char bytes[5] = {};
    if (!ReadByte(STDIN_FILENO, &bytes[0])) return 0;
    const int length = CharacterBytes(static_cast<unsigned char>(bytes[0]));
    for (int i = 1; i < length; ++i) {
      if (!ReadByte(STDIN_FILENO, &bytes[i])) return 0;
    }
    std::mbstate_t state = {};
    if (std::mbrtowc(character, bytes, length, &state) <= static_cast<size_t>(length)) return 1;
    *character = L'\uFFFD';
    return 1;
  }

  void StartHistory() {
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistorySize);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_HIST, history, history_);
    if (!history_file_.empty()) history(history_, &event, H_LOAD, history_file_.c_str());
  }

  void Remember(const std::string& line) {
    if (line.find_first_not_of(" \t\n") == std::string::npos) return;
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
    if (history_file_.empty()) return;
    history(history_, &event, H_SAVE, history_file_.c_str());
    chmod(history_file_.c_str(), S_IRUSR | S_IWUSR);
  }

  void Write(const char* text) {
    std::fputs(text, terminal_);
    std::fflush(terminal_);
  }

  std::FILE* const terminal_;
  const bool owned_;
  const std::string history_file_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  bool interrupted_ = false;
};

}  // namespace

std::unique_ptr<LineReader> MakeLineEditor(const std::string& history_file) {
  // What is typed is UTF-8, whatever the environment calls its locale: so is all that is sent.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  const bool to_stderr = isatty(STDERR_FILENO) == 1;
  std::FILE* terminal = to_stderr ? stderr : std::fopen("/dev/tty", "w");
  if (terminal == nullptr) return nullptr;
  return std::make_unique<LineEditor>(terminal, !to_stderr, history_file);
}

}  // namespace sluice
