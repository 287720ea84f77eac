// The flags of the jobs. Each is defined once; which jobs use it is said by the
// jobs, and a flag that the chosen job does not use is refused.

package lab

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AddClientFlags adds --wire, --job and the flags of all jobs.
func AddClientFlags(f *pflag.FlagSet, o *JobOptions) {
	addJobFlags(f, o, wires, "what to do: "+families(JobNames())+", or a job of --wire (default: the first)")
}

// AddServerFlags adds --wire, and for the formats whose clients say nothing of the
// job, --job and their jobs' flags.
func AddServerFlags(f *pflag.FlagSet, o *JobOptions) {
	addJobFlags(f, o, wires[1:], "with --wire, what to do (default: the format's first)")
}

// addJobFlags adds the flags that the jobs of some formats use.
func addJobFlags(f *pflag.FlagSet, o *JobOptions, some []wire, job string) {
	f.StringVar(&o.Wire, "wire", wireNative, "whose format the exchange over TCP has: "+strings.Join(WireNames(), ", "))
	f.StringVarP(&o.Job, "job", "j", "", job)
	users := usersOfFlags(some)
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	defineJobFlags(all, o)
	all.VisitAll(func(flag *pflag.Flag) {
		if names := users[flag.Name]; len(names) > 0 {
			flag.Usage += " [" + families(names) + "]"
			f.AddFlag(flag)
		}
	})
}

// families lists names, of three and more that begin alike the beginning alone.
func families(names []string) string {
	family := func(name string) string { return name[:strings.Index(name, "-")+1] }
	size := map[string]int{}
	for _, name := range names {
		size[family(name)]++
	}
	var list []string
	for _, name := range names {
		if f := family(name); f != "" && size[f] > 2 {
			name = f + "…"
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, ", ")
}

func defineJobFlags(f *pflag.FlagSet, o *JobOptions) {
	o.Size, o.Chunk = 4096, 64<<10
	f.StringVarP(&o.Text, "text", "s", "", "the text to send or write (default: a greeting of the job's)")
	f.Var(&o.Size, "size", "bytes of each message buffer, of the server's region, or of all the data of bulk (default there 64M), such as 4096, 64K, 1M")
	f.Var(&o.Chunk, "chunk", "bytes of each request, such as 4096, 64K, 1M")
	f.StringVar(&o.Op, "op", "", "the operation, "+describeOps())
	f.IntVar(&o.Count, "count", 10, "how many operations to do")
	f.Uint64Var(&o.Add, "add", 1, "what each operation adds to the counter")
	f.BoolVar(&o.LeaveEarly, "leave-early", false, "have the server leave one completion early, to see a receive flushed; status 0 if exactly that is seen")
	f.StringVarP(&o.File, "file", "f", "", "the file to send")
	f.StringVar(&o.Name, "name", "", "the file's name at the server (default: the last part of its path)")
	o.Bulk.addFlags(f)
	o.Bench.addFlags(f)
	f.BoolVar(&o.Check, "chk", false, "check the first byte of each page of what the server has received; give it at both ends")
}

// CompleteClientFlags fills in, once the flags are parsed, what the job chooses for
// itself, and refuses flags that are another job's.
func CompleteClientFlags(f *pflag.FlagSet, o *JobOptions) error {
	w, err := findWire(o.Wire)
	if err != nil {
		return Usagef("--wire: %w", err)
	}
	return w.complete(f, o, wires)
}

// CompleteServerFlags is the same at the server, where the job is the client's
// choice if the format can say it.
func CompleteServerFlags(f *pflag.FlagSet, o *JobOptions) error {
	w, err := findWire(o.Wire)
	if err != nil {
		return Usagef("--wire: %w", err)
	}
	if !w.isNative() {
		for _, flag := range nativeServerFlags {
			if f.Changed(flag) {
				return Usagef("--%s is for the jobs of the native format, and --wire %s has none of them", flag, w.name)
			}
		}
		return w.complete(f, o, wires[1:])
	}
	users := usersOfFlags(wires[1:])
	users["job"] = nil
	for flag := range users {
		if f.Changed(flag) {
			return Usagef("--%s is for --wire %s: in the native format the client says it (rdma_client --%s)", flag, strings.Join(WireNames()[1:], " or "), flag)
		}
	}
	return nil
}

// nativeServerFlags are about what clients may ask for, where they ask.
var nativeServerFlags = []string{"allow", "max-size", "dir", "max-file"}

// complete fills in what the job of the format chooses for itself; the flags are
// those of some formats.
func (w wire) complete(f *pflag.FlagSet, o *JobOptions, some []wire) error {
	j, err := w.find(o.Job)
	if err != nil {
		return Usagef("--job: %w", err)
	}
	o.Wire, o.Job = w.name, j.name
	for flag, users := range usersOfFlags(some) {
		if f.Changed(flag) && !slices.Contains(j.flags, flag) {
			return Usagef("--%s is no flag of the job %s, but of: %s", flag, j.name, strings.Join(users, ", "))
		}
	}
	for _, flag := range j.needs {
		if !f.Changed(flag) {
			return Usagef("the job %s needs --%s: %s", j.name, flag, f.Lookup(flag).Usage)
		}
	}
	for flag, value := range j.defaults {
		if !f.Changed(flag) {
			if err := f.Lookup(flag).Value.Set(value); err != nil {
				return err
			}
		}
	}
	if !f.Changed("text") {
		o.Text = j.text
	}
	if !f.Changed("op") && len(j.ops) > 0 {
		o.Op = j.ops[0]
	}
	if !f.Changed("size") && j.size != 0 {
		o.Size = j.size
	}
	return nil
}

// describeOps lists what --op may be in each job; the first is its default.
func describeOps() string {
	var list []string
	for _, j := range jobs {
		if len(j.ops) > 0 {
			list = append(list, "in "+j.name+" "+strings.Join(j.ops, ", "))
		}
	}
	return strings.Join(list, "; ") + " (default: the first)"
}

// usersOfFlags maps each job flag to the names of the jobs of some formats that use
// it.
func usersOfFlags(some []wire) map[string][]string {
	users := map[string][]string{}
	for _, w := range some {
		for _, j := range w.jobs {
			for _, flag := range j.flags {
				if !slices.Contains(users[flag], j.name) {
					users[flag] = append(users[flag], j.name)
				}
			}
		}
	}
	return users
}
