package run

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
)

// commonFlags are some of those that a command has with every job.
func commonFlags(f *pflag.FlagSet) {
	f.Int("mtu", 0, "")
	f.Uint8("ib-port", 1, "")
	f.Duration("timeout", time.Second, "")
	f.Bool("quiet", false, "")
	f.CountP("verbose", "v", "")
}

// parse does what a command does with its arguments.
func parse(role Role, args []string) (*Selection, *pflag.FlagSet, error) {
	s, err := Select(role, args, commonFlags)
	if err != nil {
		return s, nil, err
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(f, commonFlags)
	if err := f.Parse(args); err != nil {
		return s, f, s.Explain(err)
	}
	return s, f, s.Check(f)
}

// A command line selects its job wherever it names it.
func TestSelect(t *testing.T) {
	for line, want := range map[string]string{
		"10.0.0.1 rxe0":                                              "native send",
		"--job atomic 10.0.0.1":                                      "native atomic",
		"-j atomic --count 3 10.0.0.1":                               "native atomic",
		"-vj atomic 10.0.0.1":                                        "native atomic",
		"--peer pingpong 10.0.0.1 rxe0":                              "pingpong rc-pingpong",
		"--peer=pingpong 10.0.0.1":                                   "pingpong rc-pingpong",
		"-ec -n100 10.0.0.1 --job ud-pingpong --peer pingpong":       "pingpong ud-pingpong",
		"-n 100 -s 64 -e --peer pingpong -m 1024 -i 1 10.0.0.1 rxe0": "pingpong rc-pingpong",
		"--peer perftest --job bench-read-lat -q 1 10.0.0.1":         "perftest bench-read-lat",
		"--text=--job 10.0.0.1":                                      "native send",
		"-- --peer pingpong":                                         "native send",
	} {
		s, _, err := parse(ClientRole, strings.Fields(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if got := s.Peer.Name + " " + s.Job.Name; got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// What cannot be selected is refused, and says what can.
func TestSelectRefuses(t *testing.T) {
	for _, test := range []struct {
		role       Role
		line, want string
	}{
		{ClientRole, "--peer morse 10.0.0.1", "try: native, rc-example"},
		{ClientRole, "--job juggle 10.0.0.1", "try: send, "},
		{ClientRole, "--peer pingpong --job send 10.0.0.1", "try: rc-pingpong"},
		{ClientRole, "--count 3 10.0.0.1", "--count is not a flag of the job send, but of: atomic"},
		{ClientRole, "-q 10.0.0.1", "-q is not a flag of the job send, but of: --qps of bench-…, --peer pingpong, --peer perftest"},
		{ClientRole, "-q --job bench-send-lat 10.0.0.1", `"-q, --qps" flag: strconv.ParseInt: parsing "--job": invalid syntax; this flag needs a value`},
		{ClientRole, "--text --job write-read 10.0.0.1", "try: --flag=value"},
		{ServerRole, "--job send", "the client chooses the job"},
		{ServerRole, "--text hello", "--text is for --peer: --peer rc-example, --peer rocev2-learn"},
		{ServerRole, "--count 3", "a flag of rdma_client, not of the server"},
		{ServerRole, "--peer pingpong --dir x", "--dir is not a flag of the job rc-pingpong, but of: file"},
	} {
		_, _, err := parse(test.role, strings.Fields(test.line))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.line, err, test.want)
		}
	}
}

// A letter has one meaning in a job, and the letters of the common flags are no job's.
func TestLettersDoNotClash(t *testing.T) {
	taken := map[string]string{"h": "help", "v": "verbose", "j": "job"}
	for _, p := range peers {
		for _, j := range p.Jobs {
			for _, define := range []func(*pflag.FlagSet) kit.Side{j.Client, j.Server} {
				f := pflag.NewFlagSet("", pflag.ContinueOnError)
				define(f) // panics if a letter or a name is defined twice
				f.VisitAll(func(flag *pflag.Flag) {
					if other := taken[flag.Shorthand]; other != "" {
						t.Errorf("--peer %s --job %s: -%s is --%s, and --%s with every job", p.Name, j.Name, flag.Shorthand, flag.Name, other)
					}
				})
				common := pflag.NewFlagSet("", pflag.ContinueOnError)
				commonFlags(common)
				for name, letter := range j.Letters {
					if common.Lookup(name) == nil || f.ShorthandLookup(letter) != nil {
						t.Errorf("--peer %s --job %s gives the letter -%s to --%s", p.Name, j.Name, letter, name)
					}
				}
			}
		}
	}
}

// TestUsagesHaveOneDefault reads the usage of each flag, to which pflag may add a default.
func TestUsagesHaveOneDefault(t *testing.T) {
	for _, p := range peers {
		for _, j := range p.Jobs {
			for _, define := range []func(*pflag.FlagSet) kit.Side{j.Client, j.Server} {
				f := pflag.NewFlagSet("", pflag.ContinueOnError)
				define(f)
				for usage := range strings.Lines(f.FlagUsages()) {
					if strings.Count(usage, "(default") > 1 || strings.Contains(usage, "(default )") {
						t.Errorf("--peer %s --job %s: %s", p.Name, j.Name, usage)
					}
				}
			}
		}
	}
}

// All the server's native jobs, and each selection, define their flags without a clash.
func TestSelectionsDefineTheirFlags(t *testing.T) {
	for _, role := range []Role{ClientRole, ServerRole} {
		for _, p := range peers {
			for _, name := range p.Jobs.Names() {
				args := []string{"--peer", p.Name, "--job", name}
				if role == ServerRole && p.Name == native {
					args = nil
				}
				s, f, err := parse(role, args)
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range s.Flags {
					g.Flags.VisitAll(func(flag *pflag.Flag) {
						if f.Lookup(flag.Name) != flag {
							t.Errorf("%v: --%s of the job %s is hidden by another flag", args, flag.Name, g.Job)
						}
					})
				}
			}
		}
	}
}
