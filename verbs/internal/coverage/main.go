// Command coverage reports which public functions of libibverbs package verbs wraps, which
// it refuses on purpose, and which are missing. Run it with: make coverage-verbs.
//
// It reads the functions from the installed verbs.h. A function is wrapped if an
// "Implements:" line of a doc comment names it, and refused if refused.txt lists it with a
// reason.
//
// The command fails if
//   - less than 90 % of the functions are wrapped or refused,
//   - a function is both wrapped and refused,
//   - a comment or refused.txt names a function that verbs.h does not declare,
//   - the prototype in a comment differs from that in verbs.h.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// least is the minimum share of functions that are wrapped or refused.
const least = 0.90

func main() {
	header := flag.String("header", "/usr/include/infiniband/verbs.h", "libibverbs' public `header`")
	source := flag.String("source", "verbs", "the `directory` of the Go files with Implements: lines")
	refused := flag.String("refused", "verbs/refused.txt", "the `file` of functions that are not wrapped, with reasons")
	flag.Parse()
	ok, err := run(os.Stdout, *header, *source, *refused)
	if err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// run prints the report and returns true if it has no faults.
func run(w io.Writer, header, source, refused string) (bool, error) {
	text, err := os.ReadFile(header)
	if err != nil {
		return false, fmt.Errorf("%w; try: apt-get install libibverbs-dev, or -header FILE", err)
	}
	wrapped, texts, err := implemented(source)
	if err != nil {
		return false, err
	}
	list, err := os.ReadFile(refused)
	if err != nil {
		return false, err
	}
	reasons, err := parseRefused(string(list))
	if err != nil {
		return false, errors.WithMessage(err, refused)
	}
	functions := declared(string(text))
	wrong := mismatches(w, functions, texts)
	return report(w, functions, wrapped, reasons) && !wrong, nil
}

var (
	comments   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	directives = regexp.MustCompile(`(?m)^[ \t]*#(?:[^\n\\]|\\\n|\\.)*`)
	linkage    = regexp.MustCompile(`extern\s+"C"\s*\{`)
	function   = regexp.MustCompile(`\b(_*)(ibv_[a-z0-9_]+)\s*\(`)
)

// declared returns the functions of a header at file scope, with their prototypes. It
// ignores text in braces, such as calls and members. If the header also declares
// ___NAME, a macro NAME calls that function; programs then use its prototype.
func declared(header string) map[string]string {
	header = comments.ReplaceAllString(header, " ")
	header = directives.ReplaceAllString(header, " ")
	header = linkage.ReplaceAllString(header, " ")
	names, behind := make(map[string]string), make(map[string]string)
	depth := 0
	var scope strings.Builder
	for _, r := range header {
		switch r {
		case '{':
			depth++
		case '}':
			depth = max(depth-1, 0) // the brace of extern "C" has no opening brace here
			scope.WriteByte(';')
		default:
			if depth == 0 {
				scope.WriteRune(r)
			}
		}
	}
	for statement := range strings.SplitSeq(scope.String(), ";") {
		m := function.FindStringSubmatch(statement) // the first match; later ones are parameters
		switch {
		case m == nil:
		case m[1] == "":
			names[m[2]] = plain(statement)
		case m[1] == "___":
			behind[m[2]] = strings.Replace(plain(statement), m[1]+m[2], m[2], 1)
		}
	}
	for name, prototype := range behind {
		if names[name] != "" {
			names[name] = prototype
		}
	}
	return names
}

var (
	storage = regexp.MustCompile(`\b(?:static|inline|extern)\b`)
	around  = regexp.MustCompile(`\s*([*,()])\s*`)
)

// plain returns C code without storage classes and unnecessary spaces.
func plain(c string) string {
	c = storage.ReplaceAllString(c, " ")
	return around.ReplaceAllString(strings.Join(strings.Fields(c), " "), "$1")
}

// mismatches prints the functions whose prototype in texts differs from verbs.h. It
// returns true if there are any.
func mismatches(w io.Writer, functions, texts map[string]string) (found bool) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		prototype, _, _ := strings.Cut(functions[name], ")__attribute")
		if prototype != "" && !strings.Contains(texts[name], prototype) {
			fmt.Fprintln(w, "FAULT   ", name+" has another prototype in verbs.h: "+prototype)
			found = true
		}
	}
	return found
}

// implemented returns the functions that the Go files of dir name after "Implements:".
// names has the position of each, texts the comments that name it.
func implemented(dir string) (names, texts map[string]string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	names, texts = make(map[string]string), make(map[string]string)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		for name, m := range implements(string(text)) {
			names[name] = fmt.Sprintf("%s:%d", filepath.Base(file), m.line)
			texts[name] += plain(m.text) + "\n"
		}
	}
	return names, texts, nil
}

// listed matches the name of a function: before a parenthesis, or alone between commas.
var listed = regexp.MustCompile(`(?:^|[\s*])(ibv_[a-z0-9_]+)(?:\(|,|$)`)

// mention has the line that names a function, and all comments of the file that name it.
type mention struct {
	line int
	text string
}

// implements returns the functions that one file names after "Implements:".
func implements(text string) map[string]mention {
	names := make(map[string]mention)
	within, paragraph := false, ""
	var of []string // the functions that paragraph names
	for i, line := range strings.Split(text, "\n") {
		comment, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
		if !isComment {
			for _, name := range of {
				names[name] = mention{names[name].line, names[name].text + paragraph}
			}
			within, paragraph, of = false, "", nil
			continue
		}
		if _, after, found := strings.Cut(comment, "Implements:"); found {
			within, comment = true, after
		}
		if !within {
			continue
		}
		outside := parameters.ReplaceAllString(comment, "(") // parameter types are not functions
		for _, m := range listed.FindAllStringSubmatch(outside, -1) {
			names[m[1]] = mention{i + 1, names[m[1]].text}
			of = append(of, m[1])
		}
		paragraph += comment + "\n"
	}
	return names
}

var parameters = regexp.MustCompile(`\([^)]*\)`)

// parseRefused reads lines "name name …: reason". # begins a comment. An indented line
// continues the reason.
func parseRefused(text string) (map[string]string, error) {
	reasons := make(map[string]string)
	var last []string
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || line[0] == '#':
			continue
		case line[0] == ' ' || line[0] == '\t':
			if len(last) == 0 {
				return nil, errors.Errorf("line %d is indented, but continues no reason", i+1)
			}
			for _, name := range last {
				reasons[name] += " " + strings.TrimSpace(line)
			}
			continue
		}
		names, reason, ok := strings.Cut(line, ":")
		if reason = strings.TrimSpace(reason); !ok || reason == "" {
			return nil, errors.Errorf("line %d: no reason; want NAME…: REASON", i+1)
		}
		last = strings.Fields(names)
		for _, name := range last {
			if reasons[name] != "" {
				return nil, errors.Errorf("line %d: %s is listed twice", i+1, name)
			}
			reasons[name] = reason
		}
	}
	return reasons, nil
}

// report prints the state of each function and the faults. It returns true if there are no
// faults.
func report(w io.Writer, functions, wrapped, refused map[string]string) bool {
	var missing, faults []string
	count := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		switch where, reason := wrapped[name], refused[name]; {
		case where != "" && reason != "":
			faults = append(faults, name+" is refused, but wrapped in "+where)
			count["wrapped"]++
		case where != "":
			count["wrapped"]++
			fmt.Fprintf(w, "wrapped  %-36s %s\n", name, where)
		case reason != "":
			count["refused"]++
			fmt.Fprintf(w, "refused  %-36s %s\n", name, reason)
		default:
			missing = append(missing, name)
		}
	}
	for _, name := range missing {
		fmt.Fprintf(w, "missing  %s\n", name)
	}
	for _, list := range []map[string]string{wrapped, refused} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if functions[name] == "" {
				faults = append(faults, name+" is named, but verbs.h does not declare it ("+list[name]+")")
			}
		}
	}
	share := 0.0
	if len(functions) > 0 {
		share = float64(count["wrapped"]+count["refused"]) / float64(len(functions))
	}
	fmt.Fprintf(w, "%d functions: %d wrapped, %d refused, %d missing: %.1f %%\n",
		len(functions), count["wrapped"], count["refused"], len(missing), 100*share)
	if share < least {
		faults = append(faults, fmt.Sprintf("less than %.0f %% are wrapped or refused", 100*least))
	}
	for _, fault := range faults {
		fmt.Fprintln(w, "FAULT   ", fault)
	}
	return len(faults) == 0
}
