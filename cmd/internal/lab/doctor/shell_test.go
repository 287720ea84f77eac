package doctor

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// hostile is a HOST whose text would run a command and change the terminal's colour.
const hostile = "a\x1b[31mb;rm -rf /"

// TestQuoted lets a shell read the words.
func TestQuoted(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"", "rxe0", "10.0.0.1:18515", "fe80::1%eth0", "a b", "it's", "$HOME;`id`", "größe", "~", "*", hostile, "'\\\n\x7f1'", "\xff\u202e"} {
		q := quoted(word)
		out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+q).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is quoted as %s, which the shell reads as %q (%v)", word, q, out, err)
		}
		if line(q) != q {
			t.Errorf("%q is quoted as %q, which is not printable", word, q)
		}
	}
	for _, word := range []string{"rxe0", "10.0.0.1:18515", "--timeout=6s"} {
		if q := quoted(word); q != word {
			t.Errorf("%s is quoted as %s", word, q)
		}
	}
}

func TestHostileHost(t *testing.T) {
	m := healthy()
	m.Peer, m.Args, m.fake.lookupErr = hostile, []string{hostile}, errors.New("no such\nhost")
	list, _ := examine(t, m.Host, long)
	out := text(list)
	if strings.Contains(out, "\x1b") || strings.Contains(out, "such\nhost") {
		t.Errorf("the text has a control character: %q", out)
	}
	if want := `try: getent hosts $'a\033[31mb;rm -rf /'` + "\n"; !strings.Contains(out, want) {
		t.Errorf("want %s:\n%s", want, out)
	}
	if got, want := m.again(), `rdma_lab doctor $'a\033[31mb;rm -rf /'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPatiently(t *testing.T) {
	m := healthy()
	m.limit, m.Args = time.Millisecond, []string{"--device=soft0", "--timeout=1ms", "10.0.0.2"}
	if got, want := m.patiently(), "rdma_lab doctor --timeout=6ms --device=soft0 10.0.0.2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestOtherPort checks that a remedy names the port of HOST:PORT.
func TestOtherPort(t *testing.T) {
	refuse := func(m machine) { m.fake.connectErr = syscall.ECONNREFUSED }
	failing := func(err error) func(machine) {
		return func(m machine) { m.fake.jobErr = func([]string) error { return err } }
	}
	large := func(m machine) {
		m.fake.jobErr = func(flags []string) error {
			if flags[0] == "--job=bulk" {
				return errors.New("busy")
			}
			return nil
		}
	}
	for _, c := range []struct {
		name string
		port int
		peer string
		with func(machine)
		try  string
	}{
		{"no server", 4000, "10.1.0.2", refuse, "rdma_server DEVICE 4000  # on 10.1.0.2"},
		{"refused", 4000, "10.1.0.2", failing(&oob.PeerError{}), "rdma_lab doctor localhost:4000  # on 10.1.0.2"},
		{"refused, default port", 18515, "10.1.0.2", failing(&oob.PeerError{}), "rdma_lab doctor  # on 10.1.0.2"},
		{"another failure", 4000, "10.1.0.2", failing(errors.New("broken")), "rdma_lab doctor localhost:4000  # on 10.1.0.2"},
		{"no completion", 4000, "10.1.0.2", failing(&verbs.WCError{Status: 12}), "run the doctor there"},
		{"no completion in time", 4000, "10.1.0.2", failing(errors.WithMessage(context.DeadlineExceeded, "waiting for the WRITE's completion")), "run the doctor there"},
		{"no answer over TCP in time", 4000, "10.1.0.2", failing(&oob.TimeoutError{}), "rdma_lab doctor localhost:4000  # on 10.1.0.2"},
		{"a larger job", 4000, "10.1.0.2", large, "rdma_client --job=bulk --op=write --size=64K --chunk=16K --outstanding=2 --signal-every=1 10.1.0.2 rxe0 4000"},
		{"another program, IPv6", 4000, "::1", failing(oob.ErrForeignPeer), "rdma_lab doctor '[::1]:PORT'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := healthy()
			m.Peer, m.Port = c.peer, c.port
			c.with(m)
			list, _ := examine(t, m.Host, long)
			if out := text(list); !strings.Contains(out, c.try+"\n") {
				t.Errorf("want try: %s\n%s", c.try, out)
			}
		})
	}
}
