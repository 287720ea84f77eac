// Command lines for a shell: the remedies that a finding prints.

package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rawverbs/rawverbs/oob"
)

// quoted writes a text as one word for a shell.
func quoted(text string) string {
	plain, printable := text != "", true
	for _, r := range text {
		letter := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
		plain = plain && (letter || strings.ContainsRune("_@%+=:,./-", r))
		printable = printable && unicode.IsPrint(r) && r != unicode.ReplacementChar
	}
	switch {
	case plain:
		return text
	case printable:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	// $'…' is the form that can name a control character.
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c == '\\' || c == '\'':
			b.WriteString(`\` + string(rune(c)))
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}

// commandLine joins words to a line for a shell.
func commandLine(words ...string) string {
	for i, word := range words {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}

// again is the command line that runs the doctor again.
func (h *Host) again() string {
	return commandLine(append([]string{"rdma_lab", "doctor"}, h.Args...)...)
}

// patiently is the command line that runs the doctor again, with more time.
func (h *Host) patiently() string {
	const flag = "--timeout="
	words := []string{"rdma_lab", "doctor", flag + (6 * h.limit).String()}
	for _, arg := range h.Args {
		if !strings.HasPrefix(arg, flag) {
			words = append(words, arg)
		}
	}
	return commandLine(words...)
}

// otherPort returns the words of a command line for rdma_server's port, none for the default.
func (h *Host) otherPort(words ...string) []string {
	if h.Port == oob.DefaultPort {
		return nil
	}
	return words
}

// doctorThere is the command that runs the doctor at HOST.
func (h *Host) doctorThere() string {
	words := h.otherPort(fmt.Sprintf("localhost:%d", h.Port))
	return commandLine(append([]string{"rdma_lab", "doctor"}, words...)...) + "  # on " + quoted(h.Peer)
}

// serverThere is the command that starts rdma_server at HOST.
func (h *Host) serverThere() string {
	words := h.otherPort("DEVICE", strconv.Itoa(h.Port)) // the port follows the device
	return commandLine(append([]string{"rdma_server"}, words...)...) + "  # on " + quoted(h.Peer)
}

// clientHere is the command that runs a job with HOST.
func (h *Host) clientHere(flags []string) string {
	words := slices.Concat([]string{"rdma_client"}, flags, []string{h.Peer, h.dialed}, h.otherPort(strconv.Itoa(h.Port)))
	return commandLine(words...)
}
