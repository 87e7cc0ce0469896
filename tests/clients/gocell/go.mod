module leveret/tests/gocell

go 1.26
