// The flags of the client's jobs. Each is defined once; which jobs use it is said
// by the jobs, and a flag that the chosen job does not use is refused.

package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AddJobFlags adds --job and the flags of all jobs.
func AddJobFlags(f *pflag.FlagSet, o *ClientOptions) {
	o.Size = 4096
	f.StringVarP(&o.Job, "job", "j", jobs[0].name, "what to do: "+strings.Join(JobNames(), ", "))
	f.StringVarP(&o.Text, "text", "s", "", "the text to send or write (default: a greeting of the job's)")
	f.Var(&o.Size, "size", "bytes of each message buffer, or of the server's region, such as 4096, 64K, 1M")
	for flag, users := range usersOfFlags() {
		f.Lookup(flag).Usage += " [" + strings.Join(users, ", ") + "]"
	}
}

// CompleteJobFlags, once the flags are parsed, fills in what the job chooses for
// itself and refuses flags that are another job's.
func CompleteJobFlags(f *pflag.FlagSet, o *ClientOptions) error {
	j, err := find(o.Job)
	if err != nil {
		return fmt.Errorf("--job: %w", err)
	}
	for flag, users := range usersOfFlags() {
		if f.Changed(flag) && !slices.Contains(users, j.name) {
			return fmt.Errorf("--%s is no flag of the job %s, but of: %s", flag, j.name, strings.Join(users, ", "))
		}
	}
	if !f.Changed("text") {
		o.Text = j.text
	}
	return nil
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
