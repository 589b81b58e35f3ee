# Turns the --help of a program of Sluice into a manual page. Two shapes come in: that of the commands of `sluice`
# ("  --flag VALUE   what it does", continued further in) and that of the services ("    --flag (what it does); default: X;").
# Variables: name, summary, version.

function escaped(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  sub(/^[.']/, "\\\\\\&&", text)
  return text
}

function flush_service_flag(   at, close_at) {
  if (flag_text == "") return
  at = index(flag_text, " (")
  close_at = index(flag_text, "); default: ")
  printf ".TP\n\\fB%s\\fR\n%s\n", escaped(substr(flag_text, 1, at - 1)), \
    escaped(substr(flag_text, at + 2, close_at - at - 2))
  value = substr(flag_text, close_at + 12)
  sub(/;$/, "", value)
  if (value != "\"\"" && value != "") printf "(default %s)\n", escaped(value)
  flag_text = ""
}

BEGIN {
  printf ".TH %s 1 \"\" \"sluice %s\" \"Sluice\"\n.SH NAME\n%s \\- %s\n", toupper(name), version, escaped(name), summary
}

# "Usage: sluice up [flags]"
/^Usage: / {
  printf ".SH SYNOPSIS\n%s\n.SH DESCRIPTION\n", escaped(substr($0, 8))
  next
}
# "sluice-shard: Runs one rank of ..."
NR == 1 {
  printf ".SH SYNOPSIS\n%s [flags]\n.SH DESCRIPTION\n%s\n.SH OPTIONS\n", escaped(name), escaped(substr($0, index($0, ": ") + 2))
  service = 1
  next
}

service && /^Try --helpfull/ { exit }
service && /^  Flags from / { next }
service && /^    --/ { flush_service_flag(); flag_text = $0; sub(/^ */, "", flag_text); next }
service && /^      / { line = $0; sub(/^ */, "", line); flag_text = flag_text " " line; next }
service { next }

/^$/ { blank = 1; next }
/^[A-Z][A-Za-z ]*:$/ { printf ".SH %s\n", toupper(substr($0, 1, length($0) - 1)); blank = 0; next }
# A flag or a command: its name, then two spaces or more, then what it does.
/^  [^ ]/ {
  line = substr($0, 3)
  at = match(line, /   *[^ ]/)
  printf ".TP\n\\fB%s\\fR\n", escaped(at ? substr(line, 1, at - 1) : line)
  if (at) { rest = substr(line, at); sub(/^ */, "", rest); print escaped(rest) }
  blank = 0
  next
}
{
  line = $0
  sub(/^ */, "", line)
  if (blank) print ".PP"
  blank = 0
  print escaped(line)
}

END { flush_service_flag() }
