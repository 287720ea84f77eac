package lab

import (
	"strings"
	"testing"
)

// The letters are those of the job that a command line asks for, wherever it does.
func TestLetters(t *testing.T) {
	for line, iters := range map[string]string{
		"10.0.0.1 rxe0":                                             "",
		"--wire pingpong 10.0.0.1 rxe0":                             "n",
		"--wire=pingpong 10.0.0.1":                                  "n",
		"-n 100 -s 64 -e --wire pingpong -c 10.0.0.1 rxe0":          "n",
		"-ec -n100 10.0.0.1 rxe0 --job ud-pingpong --wire pingpong": "n",
		"--help --wire pingpong":                                    "n",
		"--wire pingpong --job juggle 10.0.0.1":                     "n",
		"--wire morse 10.0.0.1":                                     "",
		"-- --wire pingpong":                                        "",
		"--wire":                                                    "",
	} {
		if got := Letters(strings.Fields(line))["iters"]; got != iters {
			t.Errorf("%s: --iters is -%s, want -%s", line, got, iters)
		}
	}
	args := strings.Fields("--wire pingpong --job srq-pingpong")
	if got := Letters(args)["qps"]; got != "q" {
		t.Errorf("--qps is -%s", got)
	}
	for _, w := range wires {
		for _, j := range w.jobs {
			seen := map[string]string{"h": "help", "v": "verbose"}
			for flag, letter := range j.letters {
				if len(letter) != 1 || seen[letter] != "" {
					t.Errorf("%s: -%s is --%s and --%s", j.name, letter, seen[letter], flag)
				}
				seen[letter] = flag
			}
		}
	}
}
