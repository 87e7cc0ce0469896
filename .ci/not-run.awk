# The output of cargo test, in which tests that noted that they can't be run here count as ignored, not as passed: the harness can't be
# told while a test runs. The first file has the notes, which tests/src/not_run.rs writes: program, test, reason.
#
#   awk -f not-run.awk NOTES OUTPUT

BEGIN { FS = "\t" }

FILENAME == ARGV[1] {
  if (!(($1, $2) in reason)) {
    reason[$1, $2] = $3
    # The only thread of a program that runs one test at a time has no test's name.
    if ($2 == "main" || $2 == "a test") left_out[$1]++
  }
  next
}

# "     Running tests/alarms.rs (target/ci/deps/alarms-54daba2dd0265326)"
/^ +Running / {
  program = $0
  sub(/^.*\//, "", program)
  sub(/\).*$/, "", program)
}
/^ +Doc-tests / { program = "" }

/^test .* \.\.\. ok$/ {
  name = $0
  sub(/^test +/, "", name)
  sub(/ +\.\.\. ok$/, "", name)
  if ((program, name) in reason) {
    left_out[program]++
    print "test " name " ... ignored, " reason[program, name]
    next
  }
}

# "test result: ok. 8 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 9.31s"
/^test result: / && left_out[program] > 0 {
  split($0, part, "; ")
  passed = part[1]
  sub(/ passed$/, "", passed)
  sub(/^.* /, "", passed)
  ignored = part[3]
  sub(/ .*$/, "", ignored)
  sub(passed " passed", (passed - left_out[program]) " passed")
  sub("; " ignored " ignored", "; " (ignored + left_out[program]) " ignored")
  left_out[program] = 0
}

{ print }
