// Suite: github.com/michaelklishin/rabbit-hole/v3
module leveret/tests/rabbit-hole

go 1.26

require github.com/michaelklishin/rabbit-hole/v3 v3.5.0
