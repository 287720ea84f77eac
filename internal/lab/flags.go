// The flags of the client's jobs. Each is defined once; which jobs use it is said
// by the jobs, and a flag that the chosen job does not use is refused.

package lab

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AddJobFlags adds --job and the flags of all jobs.
func AddJobFlags(f *pflag.FlagSet, o *ClientOptions) {
	o.Size, o.Chunk = 4096, 64<<10
	f.StringVarP(&o.Job, "job", "j", jobs[0].name, "what to do: "+strings.Join(JobNames(), ", "))
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
	for flag, users := range usersOfFlags() {
		f.Lookup(flag).Usage += " [" + strings.Join(users, ", ") + "]"
	}
}

// CompleteJobFlags fills in, once the flags are parsed, what the job chooses for
// itself, and refuses flags that are another job's.
func CompleteJobFlags(f *pflag.FlagSet, o *ClientOptions) error {
	j, err := find(o.Job)
	if err != nil {
		return Usagef("--job: %w", err)
	}
	for flag, users := range usersOfFlags() {
		if f.Changed(flag) && !slices.Contains(users, j.name) {
			return Usagef("--%s is no flag of the job %s, but of: %s", flag, j.name, strings.Join(users, ", "))
		}
	}
	for _, flag := range j.needs {
		if !f.Changed(flag) {
			return Usagef("the job %s needs --%s: %s", j.name, flag, f.Lookup(flag).Usage)
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

// usersOfFlags maps each job flag to the names of the jobs that use it.
func usersOfFlags() map[string][]string {
	users := map[string][]string{}
	for _, j := range jobs {
		for _, flag := range j.flags {
			users[flag] = append(users[flag], j.name)
		}
	}
	return users
}
