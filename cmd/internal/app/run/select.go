// From a command line to the job that it selects. The flags depend on the job, so
// --peer and --job are looked for first; then the flags of that job are defined.

package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

// Role is which side of the jobs a command has.
type Role int

// The roles.
const (
	ClientRole Role = iota
	ServerRole
)

// side defines the flags of the role's side of a job, and returns the side.
func (r Role) side(t kit.Type, f *pflag.FlagSet) kit.Side {
	if r == ServerRole {
		return t.Server(f)
	}
	return t.Client(f)
}

// Selection is the job that a command line selects, with this command's side of it.
type Selection struct {
	Peer  kit.Peer
	Job   kit.Type // of the native peer at the server: none, since the client chooses
	Flags []Group  // of that job, or at the native server of every job that has any there

	sides map[string]kit.Side // by the job's name
	role  Role
}

// Group is the flags of one job.
type Group struct {
	Job   string
	Flags *pflag.FlagSet
}

// Native says whether the ends speak the native protocol.
func (s *Selection) Native() bool { return s.Peer.Name == native }

// Select returns the job that the arguments of a command select, by --peer and --job.
// define defines the flags that the command has with every job. If the arguments select
// no job, Select returns the default one and the error.
func Select(role Role, args []string, define func(*pflag.FlagSet)) (*Selection, error) {
	scan := pflag.NewFlagSet("", pflag.ContinueOnError)
	scan.ParseErrorsAllowlist.UnknownFlags = true
	define(scan)
	scan.BoolP("help", "h", false, "")
	var peer, name string
	addSelectors(scan, &peer, &name)
	_ = scan.Parse(args) // the full parse reports what is wrong
	s, err := newSelection(role, peer, name)
	if err != nil {
		fallback, _ := newSelection(role, native, "")
		return fallback, err
	}
	return s, nil
}

// newSelection makes the sides of the jobs, and with them their flags.
func newSelection(role Role, peer, name string) (*Selection, error) {
	p, err := findPeer(peer)
	if err != nil {
		return nil, err
	}
	s := &Selection{Peer: p, role: role, sides: map[string]kit.Side{}}
	if role == ServerRole && s.Native() {
		if name != "" {
			return nil, usage.Errorf("--job is for --peer %s: with rdma_client the client chooses the job (rdma_client --job %s)", strings.Join(PeerNames()[1:], " or "), name)
		}
		for _, t := range p.Jobs {
			s.add(t)
		}
		return s, nil
	}
	if s.Job, err = p.Jobs.Find(name); err != nil {
		return nil, usage.Errorf("--job with --peer %s: %w", p.Name, err)
	}
	s.add(s.Job)
	return s, nil
}

func (s *Selection) add(t kit.Type) {
	f := pflag.NewFlagSet(t.Name, pflag.ContinueOnError)
	f.SortFlags = false
	s.sides[t.Name] = s.role.side(t, f)
	if f.HasFlags() {
		s.Flags = append(s.Flags, Group{t.Name, f})
	}
}

// addSelectors defines the two flags that select a job.
func addSelectors(f *pflag.FlagSet, peer, name *string) {
	f.StringVar(peer, "peer", native, "the program at the other end: "+strings.Join(PeerNames(), ", "))
	f.StringVarP(name, "job", "j", "", "the job (default: the first job of the --peer)")
}

// AddFlags defines all flags of the command: --peer, --job, what define defines, with the
// letters that the job gives to these, and the flags of the job.
func (s *Selection) AddFlags(f *pflag.FlagSet, define func(*pflag.FlagSet)) {
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	define(common)
	for name, letter := range s.Job.Letters {
		common.Lookup(name).Shorthand = letter
	}
	addSelectors(f, new(string), new(string))
	f.AddFlagSet(common)
	for _, g := range s.Flags {
		f.AddFlagSet(g.Flags)
	}
}

// Check compares the parsed flags with the selection, which was made before the flags
// of the job were known.
func (s *Selection) Check(f *pflag.FlagSet) error {
	peer, name := f.Lookup("peer").Value.String(), f.Lookup("job").Value.String()
	named, err := s.Peer.Jobs.Find(name)
	if peer != s.Peer.Name || err != nil || s.Job.Name != "" && named.Name != s.Job.Name {
		return usage.Errorf("--peer or --job stands where another flag expects its value; try: --flag=value for that flag")
	}
	for _, flag := range []string{"tls", "allow"} { // without the variable they would protect nothing
		if given := f.Lookup(flag); given != nil && given.Changed && strings.Trim(given.Value.String(), "[]") == "" {
			return usage.Errorf("--%s is empty; try: the value of the variable that was to be there, or no --%s", flag, flag)
		}
	}
	if s.Native() {
		return nil
	}
	for _, flag := range nativeFlags {
		if given := f.Lookup(flag); given != nil && given.Changed {
			return usage.Errorf("--%s is for jobs of rdma_client, and --peer %s has other jobs", flag, s.Peer.Name)
		}
	}
	return nil
}

// nativeFlags are the flags that need rdma_client and rdma_server at the two ends.
var nativeFlags = []string{"allow", "max-size", "retry", "tls", "tls-allow"}

// Explain makes a usage.Error of an error about the flags of a command line. It adds which
// jobs have the flag that this one lacks.
func (s *Selection) Explain(err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		if whose := s.whose(unknown.GetSpecifiedName()); whose != "" {
			return usage.Errorf("%s", whose)
		}
	case errors.As(err, &invalid) && strings.HasPrefix(invalid.GetValue(), "-"):
		return usage.Errorf("%w; this flag needs a value", err)
	}
	return usage.Errorf("%w", err)
}

// whose says which jobs have a flag, given by its name or its letter, that this selection
// has not. It is empty if no job has it.
func (s *Selection) whose(flag string) string {
	given := "--" + flag
	if len(flag) == 1 {
		given = "-" + flag
	}
	var list []string
	users := usersOf(s.role, flag)
	for _, name := range slices.Sorted(maps.Keys(users)) {
		of := strings.Join(users[name], ", ")
		if name != given {
			of = name + " of " + of
		}
		list = append(list, of)
	}
	switch {
	case len(list) > 0 && s.Job.Name != "":
		return fmt.Sprintf("%s is not a flag of the job %s, but of: %s", given, s.Job.Name, strings.Join(list, "; "))
	case len(list) > 0:
		return fmt.Sprintf("%s is for --peer: %s", given, strings.Join(list, "; "))
	case s.role == ServerRole && s.Native() && len(usersOf(ClientRole, flag)) > 0:
		return fmt.Sprintf("%s is a flag of rdma_client, not of the server", given)
	}
	return ""
}

// usersOf lists the jobs that have a flag of this name or letter, by the flag's name.
func usersOf(role Role, flag string) map[string][]string {
	users := map[string][]string{}
	for _, p := range peers {
		for _, t := range p.Jobs {
			f := pflag.NewFlagSet("", pflag.ContinueOnError)
			role.side(t, f)
			found := f.Lookup(flag)
			if len(flag) == 1 {
				found = f.ShorthandLookup(flag)
			}
			if found == nil {
				continue
			}
			user := t.Name
			if p.Name != native {
				user = "--peer " + p.Name
			}
			if name := "--" + found.Name; !slices.Contains(users[name], user) {
				users[name] = append(users[name], user)
			}
		}
	}
	for name := range users {
		users[name] = families(users[name])
	}
	return users
}

// families shortens a list: three or more names that begin alike up to a hyphen become
// that beginning.
func families(names []string) (list []string) {
	family := func(name string) string {
		if strings.HasPrefix(name, "-") {
			return ""
		}
		return name[:strings.Index(name, "-")+1]
	}
	size := map[string]int{}
	for _, name := range names {
		size[family(name)]++
	}
	for _, name := range names {
		if f := family(name); f != "" && size[f] > 2 {
			name = f + "…"
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
