# Converts the events of `go test -json` (go doc test2json) back to go test's usual output, and lists skipped
# tests by reason. It uses print instead of printf, whose lines have a limited length in mawk.

function value(field) { # returns the value of a field without escapes, "" if the event lacks it
  if (!match($0, "\"" field "\":\"[^\"]*\"")) return ""
  return substr($0, RSTART + length(field) + 4, RLENGTH - length(field) - 5)
}

function output(   s) {
  s = substr($0, index($0, "\"Output\":\"") + 10)
  sub(/"(,"OutputType":"[a-z]*")?}$/, "", s)
  gsub(/\\\\/, "\001", s)
  gsub(/\\n/, "\n", s); gsub(/\\t/, "\t", s); gsub(/\\r/, "\r", s); gsub(/\\"/, "\"", s)
  gsub(/\\u003c/, "<", s); gsub(/\\u003e/, ">", s); gsub(/\\u0026/, "\\&", s); gsub(/\\u001b/, "\033", s)
  gsub("\001", "\\\\", s)
  return s
}

# why returns the message of a skipped test, without the position in the source.
function why(said,   lines, n, i) {
  n = split(said, lines, "\n")
  for (i = 1; i <= n; i++) {
    sub(/^[ \t]+/, "", lines[i])
    if (lines[i] == "" || lines[i] ~ /^(===|---)/) continue
    sub(/^[^ ]*\.go:[0-9]+: /, "", lines[i])
    return lines[i]
  }
  return "no reason given"
}

BEGIN { ORS = "" }
!/^\{.*"Action":"/ { print $0 "\n"; next }
{
  action = value("Action"); pkg = value("Package"); test = value("Test"); id = pkg SUBSEP test
  if (pkg != "") ran[pkg] += test != "" && (action == "pass" || action == "fail")
}
action == "build-output" { print output() }
action == "output" && test != "" { text[id] = text[id] output() }
action == "output" && test == "" { line = output(); if (line != "PASS\n") print line; fflush() }
action == "fail" { failed = 1; print text[id] }
action == "fail" && test == "" { # a binary that died leaves its running tests without an event
  for (k in text) if (index(k, pkg SUBSEP) == 1) { print text[k]; delete text[k] }
}
action == "skip" && test != "" {
  reason = why(text[id])
  if (reason !~ /^helper process/) { # another test runs it as a process
    skips++
    if (!(reason in tests)) reasons[++n] = reason
    tests[reason] = tests[reason] "    " pkg " " test "\n"
  }
}
action ~ /^(pass|fail|skip)$/ { delete text[id] }
END {
  print skips ? "\nskipped tests: " skips "\n" : "\nno test was skipped\n"
  for (i = 1; i <= n; i++) print "  " reasons[i] "\n" tests[reasons[i]]
  if (noskip) {
    failed = failed || skips > 0
    for (pkg in ran) if (!ran[pkg]) { failed = 1; print "no test of " pkg " was run\n" }
  }
  exit failed
}
