// Short flags. A job that is a C program's counterpart has that program's letters,
// which mean other things to other programs: -s is a text here, and a size there.

package lab

import (
	"maps"

	"github.com/spf13/pflag"
)

// Letters are the short flags that a command line's job has of its own, by the names
// of the flags. Where they clash with this program's, they stand in for them.
func Letters(args []string) map[string]string {
	look := pflag.NewFlagSet("", pflag.ContinueOnError)
	look.ParseErrorsAllowlist.UnknownFlags = true
	name := look.String("wire", wireNative, "")
	job := look.StringP("job", "j", "", "")
	look.BoolP("help", "h", false, "")
	_ = look.Parse(args) // what is wrong with them is told when all flags are known
	w, err := findWire(*name)
	if err != nil {
		return nil
	}
	if j, err := w.find(*job); err == nil {
		return j.letters
	}
	all := map[string]string{} // whichever was meant
	for _, j := range w.jobs {
		maps.Copy(all, j.letters)
	}
	return all
}
