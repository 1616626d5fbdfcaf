# Reads and edits the little of TOML that containerd's files need.
#
# -v mode=flat           every setting as "table|key=value", one a line (for files that containerd
#                      or nvidia-ctk wrote: one setting a line)
# -v mode=sections       the tables whose name begins with -v table=, and the version, as they are
# -v mode=items          the texts of the array -v key=, which stands before any table
# -v mode=array          the file with the array -v key= set to -v value=, which is TOML

function trim(text) { gsub(/^[ \t\r]+|[ \t\r]+$/, "", text); return text }
function header(line) {
  sub(/\]+[ \t\r]*(#.*)?$/, "", line); sub(/^[ \t]*\[+/, "", line)
  gsub(/'/, "\"", line); gsub(/[ \t]/, "", line)
  return line
}
function is_header(line) { return line ~ /^[ \t]*\[/ }
function is_key(line) { return line ~ ("^[ \t]*[\"']?" key "[\"']?[ \t]*=") }

# Keep what is code of a line of an array: texts, brackets; no comment. Counts open brackets.
function scan(line,    i, c, quote, kept) {
  quote = ""; kept = ""
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (quote != "") { if (c == quote) quote = "" }
    else if (c == "\"" || c == "'") quote = c
    else if (c == "#") break
    else if (c == "[") open++
    else if (c == "]") open--
    kept = kept c
  }
  return kept
}
function items(text,    i, c, quote, item) {
  quote = ""; item = ""
  for (i = 1; i <= length(text); i++) {
    c = substr(text, i, 1)
    if (quote != "") {
      if (c == quote) { print item; quote = ""; item = "" } else item = item c
    } else if (c == "\"" || c == "'") quote = c
  }
}
function place() { if (!placed) { print key " = " value; placed = 1 } }

{ plain = trim($0) }

mode == "flat" {
  if (is_header($0)) now = header($0)
  else if (plain != "" && plain !~ /^#/) {
    split_at = index(plain, "=")
    if (split_at) print now "|" trim(substr(plain, 1, split_at - 1)) "=" trim(substr(plain, split_at + 1))
  }
  next
}
mode == "sections" {
  if (is_header($0)) { now = header($0); started = 1; take = (index(now, table) == 1) }
  if (take || (!started && plain ~ /^version[ \t]*=/)) print
  next
}
# Both of the others look at the part before any table only.
inside { text = text " " scan($0); if (open <= 0) finish(); next }
!tables && is_key($0) { text = ""; open = 0; inside = 1; text = scan($0); if (open <= 0) finish(); next }
mode == "items" { if (is_header($0)) tables = 1; next }
{
  if (is_header($0)) tables = 1
  # A new setting stands before the first one that there is.
  if (plain != "" && plain !~ /^#/) { if (!present) place() }
  print
}
function finish() {
  inside = 0
  if (mode == "items") items(substr(text, index(text, "=") + 1))
  else place()
}
END { if (mode == "array") place() }
