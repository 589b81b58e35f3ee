# Turns the --help of a program of Sluice, or of a command of `sluice`, into a manual page: "  --flag VALUE   what it does",
# continued further in.
# Variables: name, summary, version.

function escaped(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  sub(/^[.']/, "\\\\\\&&", text)
  return text
}

BEGIN {
  printf ".TH %s 1 \"\" \"sluice %s\" \"Sluice\"\n.SH NAME\n%s \\- %s\n", toupper(name), version, escaped(name), summary
}

# "Usage: sluice up [flags]"
/^Usage: / {
  printf ".SH SYNOPSIS\n%s\n.SH DESCRIPTION\n", escaped(substr($0, 8))
  next
}
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
