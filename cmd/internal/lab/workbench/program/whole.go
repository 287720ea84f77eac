// Whole programs. A program has both ends, makes the calls of a session on any device, and compares
// each result with the laboratory's. Time and the wire are real there: what the user did to packets
// is a comment.

package program

import (
	"cmp"
	_ "embed" // the parts of the programs that do not change
	"fmt"
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
)

var (
	//go:embed head.c.txt
	headC string
	//go:embed head.go.txt
	headGo string
	//go:embed tail.c.txt
	tailC string
	//go:embed tail.go.txt
	tailGo string
)

// Session is what a program does.
type Session struct {
	Hosts   []*Host // after the last action
	Actions []action.Action
	Code    [][]string // the lines of each action
	Full    bool       // a send queue was full at a post
	Final   []string   // the lines after the last action
}

// mayDiffer reports whether the results may differ on another device: the user has done to packets what no program can
// do, or a send queue was full.
func (s *Session) mayDiffer() bool {
	return s.Full || slices.ContainsFunc(s.Actions, func(a action.Action) bool { return tampers(a.Do) })
}

// A post to a full send queue. The laboratory frees places as most adapters do; others accept such a post.
const (
	full    = "ENOMEM"
	whyFull = "a device that frees places at the ACK, such as soft0 and rdma_rxe, may accept this"
)

// Makes are the kinds of objects by the actions that make them.
var Makes = map[string]string{"alloc_pd": "PD", "reg_mr": "MR", "create_cq": "CQ", "create_srq": "SRQ", "create_qp": "QP", "create_ah": "AH", "alloc_mw": "MW"}

// variables declares the variables of a program, each once: objects, and what was told. declarations has a format for each
// kind, and one at "" for all other kinds. spelled returns its arguments, as the language writes them.
func (s *Session) variables(declarations map[string]string, spelled func(kind, host, name string) []any) string {
	var b strings.Builder
	seen := map[string]bool{}
	declare := func(kind, host, name string) {
		text := fmt.Sprintf(cmp.Or(declarations[kind], declarations[""]), spelled(kind, host, name)...)
		if name != "" && !seen[text] {
			seen[text] = true
			b.WriteString(text)
		}
	}
	for i := range s.Actions {
		a := &s.Actions[i]
		if kind, ok := Makes[a.Do]; ok {
			declare(kind, a.Host, a.Name)
		}
		for _, h := range s.Hosts {
			if a.Do == "exchange" && h.Name == a.Host {
				declare("endpoint", h.Peer, a.Name)
				declare("memory", h.Peer, a.MR)
			}
		}
	}
	return b.String()
}

// atEnd calls each for the objects that are open at the end, children first.
func (s *Session) atEnd(each func(h *Host, o *Object)) {
	for _, kind := range []string{"QP", "SRQ", "AH", "MW", "MR", "CQ", "PD"} {
		for _, h := range s.Hosts {
			for i := range h.Objects {
				if o := &h.Objects[i]; o.Kind == kind && !o.Closed {
					each(h, o)
				}
			}
		}
	}
}

// frame is the code of a program around the calls of a session.
type frame struct {
	top     string // with a place for about
	head    string // declarations and functions
	session string // the first line of the session
	indent  string
	tail    string // the session's end, and main without its last lines
	exact   string // main's last lines: the results must be those of the laboratory
	changed string // the same if the results may differ
}

var frames = [...]frame{
	C: {
		top:     "/* %s\n *\n *     cc -o session session.c -libverbs && ./session [DEVICE]\n */\n",
		head:    headC,
		session: "\nvoid session(void)\n{\n",
		indent:  "    ",
		tail:    tailC,
		exact:   "    printf(\"%d results differ from the laboratory's\\n\", differences);\n    return differences != 0;\n}\n",
		changed: "    printf(\"%d results differ from the laboratory's: some depend on the device, or on packets that the user changed\\n\", differences);\n    return 0;\n}\n",
	},
	Go: {
		top:     "// %s\n//\n//\tgo run session.go [DEVICE]\npackage main\n\n",
		head:    headGo,
		session: "\nfunc session() {\n",
		indent:  "\t",
		tail:    tailGo,
		exact:   "\tfmt.Println(differences, \"results differ from the laboratory's\")\n\tif differences != 0 {\n\t\tos.Exit(1)\n\t}\n}\n",
		changed: "\tfmt.Println(differences, \"results differ from the laboratory's: some depend on the device, or on packets that the user changed\")\n}\n",
	},
}

const about = "A session of the rawverbs laboratory as a program. Both ends are in it and use one device."

// Write returns the program.
func (s *Session) Write(in Language) string {
	var b strings.Builder
	w, frame := writers[in], &frames[in]
	fmt.Fprintf(&b, frame.top, about)
	b.WriteString(frame.head)
	b.WriteString("\n")
	b.WriteString(w.variables(s))
	b.WriteString(frame.session)
	line := func(text string) { b.WriteString(frame.indent + text + "\n") }
	for i := range s.Actions {
		line(w.comment(fmt.Sprintf("%d: %s", i, s.Actions[i].Title())))
		for _, text := range s.Code[i] {
			line(text)
		}
	}
	for _, text := range s.Final {
		line(text)
	}
	line(w.comment("the end"))
	s.atEnd(func(h *Host, o *Object) { line(w.closed(h, o)) })
	b.WriteString(frame.tail)
	if s.mayDiffer() {
		b.WriteString(frame.changed)
	} else {
		b.WriteString(frame.exact)
	}
	return b.String()
}

func (cWriter) variables(s *Session) string {
	return s.variables(map[string]string{
		"endpoint": "struct endpoint %[1]s_knows_%[2]s;\n",
		"memory":   "struct memory %[1]s_knows_%[2]s_memory;\n",
		"MR":       "struct ibv_mr *%[1]s_%[2]s;\nunsigned char *%[1]s_%[2]s_bytes;\nuint32_t %[1]s_%[2]s_lkey;\n",
		"CQ":       "struct ibv_cq *%[1]s_%[2]s;\nstruct ibv_comp_channel *%[1]s_%[2]s_channel;\n",
		"QP":       "struct ibv_qp *%[1]s_%[2]s;\nuint32_t %[1]s_%[2]s_psn;\n",
		"":         "struct ibv_%[3]s *%[1]s_%[2]s;\n",
	}, func(kind, host, name string) []any { return []any{host, name, strings.ToLower(kind)} })
}

func (goWriter) variables(s *Session) string {
	return "var (\n" + s.variables(map[string]string{
		"endpoint": "\t%[1]sKnows%[2]s endpoint\n",
		"memory":   "\t%[1]sKnows%[2]sMemory memory\n",
		"MR":       "\t%[1]s%[2]s *verbs.MR\n\t%[1]s%[2]sLKey uint32\n",
		"QP":       "\t%[1]s%[2]s *verbs.QP\n\t%[1]s%[2]sPSN uint32\n",
		"":         "\t%[1]s%[2]s *verbs.%[3]s\n",
	}, func(kind, host, name string) []any { return []any{host, title(name), kind} }) + ")\n"
}

func (c cWriter) closed(h *Host, o *Object) string {
	if o.Kind == "CQ" {
		return fmt.Sprintf("close_cq(%q, %s, %s_channel, %d);", h.Name+": "+o.Verb, c.v(h, o.Name), c.v(h, o.Name), o.Unacked)
	}
	return fmt.Sprintf("returned(%q, %s(%s), 0);", h.Name+": "+o.Verb, o.Verb, c.v(h, o.Name))
}

func (g goWriter) closed(h *Host, o *Object) string {
	return fmt.Sprintf("returned(%q, %s.Close(), nil)", h.Name+": "+o.Verb, g.v(h, o.Name))
}
