//go:build unix

// Package preload starts programs with the libraries of cabi: it sets LD_PRELOAD and the variables
// that the libraries read.
package preload

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

// The libraries. They lie beside the program rawverbs, or where make install puts them.
const (
	shim      = "librawverbs.so"
	core      = "librawverbs-core.so"
	installed = "../lib/rawverbs" // from the program's folder
)

// Settings says which device programs get.
type Settings struct {
	Device  string // "soft0", "soft:IFACE" or "soft:ADDRESS"
	PCAP    string // file for the packets; "": none
	Explain bool   // print why calls fail
}

// variable is an environment variable.
type variable struct{ name, value string }

// variables returns the environment variables.
func (s *Settings) variables() ([]variable, error) {
	if s.Device != "soft0" && !strings.HasPrefix(s.Device, "soft:") {
		return nil, usage.Errorf("--device %s is not a software device; try: soft0, soft:IFACE or soft:ADDRESS; without rawverbs, programs use the system's RDMA devices", s.Device)
	}
	folder, err := libraries()
	if err != nil {
		return nil, err
	}
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	v := []variable{
		{"LD_PRELOAD", withShim(os.Getenv("LD_PRELOAD"), filepath.Join(folder, shim))},
		{"RAWVERBS_CORE", filepath.Join(folder, core)},
		{"RAWVERBS_DEVICE", s.Device},
		{"RAWVERBS_FILES", files},
	}
	if os.Getenv("NCCL_GIN_TYPE") == "" { // NCCL 2.28.7 and 2.28.9 crash without it if no device is one of mlx5
		v = append(v, variable{"NCCL_GIN_TYPE", "2"})
	}
	if s.PCAP != "" {
		file, err := s.capture()
		if err != nil {
			return nil, err
		}
		v = append(v, variable{"RAWVERBS_PCAP", file})
	}
	if s.Explain {
		v = append(v, variable{"RAWVERBS_EXPLAIN", "1"})
	}
	return v, nil
}

// isSeparator reports whether a character ends a name in LD_PRELOAD.
func isSeparator(c rune) bool { return c == ':' || c == ' ' }

// withShim adds the shim to the libraries of LD_PRELOAD. It comes last, because a sanitizer must
// be the first library.
func withShim(before, shim string) string {
	names := strings.FieldsFunc(before, isSeparator)
	if !slices.Contains(names, shim) {
		names = append(names, shim)
	}
	return strings.Join(names, ":")
}

// libraries returns the folder of the libraries.
func libraries() (string, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return "", errors.WithMessage(err, "finding the folder of rawverbs")
	}
	beside := filepath.Dir(program)
	folders := []string{beside, filepath.Join(beside, installed)}
	i := slices.IndexFunc(folders, complete)
	if i < 0 {
		return "", errors.Errorf("%s and %s, which rawverbs preloads, are neither in %s nor in %s; try: make libraries, in a clone "+
			"of github.com/rawverbs/rawverbs on Linux with gcc and libibverbs-dev, then ./rawverbs there", shim, core, folders[0], folders[1])
	}
	if strings.ContainsFunc(folders[i], isSeparator) {
		return "", errors.Errorf("the folder of the libraries, %q, has a space or a colon, which LD_PRELOAD cannot hold; try: another folder", folders[i])
	}
	return folders[i], nil
}

// complete reports whether a folder has both libraries.
func complete(folder string) bool {
	for _, name := range []string{shim, core} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// capture checks that the file can be written, and removes an old one: the libraries never write
// over a file, because several processes may have the same environment. A process that writes a file
// has it locked.
func (s *Settings) capture() (string, error) {
	file, err := filepath.Abs(s.PCAP)
	if err != nil {
		return "", errors.WithMessage(err, "--pcap")
	}
	if i, err := os.Lstat(file); err == nil && !i.Mode().IsRegular() {
		return "", errors.Errorf("--pcap: %s exists and is not a file; try: another name", file)
	}
	old, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return "", fmt.Errorf("--pcap: %w; try: a file in a folder that exists and may be written", err)
	}
	defer old.Close()
	if err := unix.Flock(int(old.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return "", errors.Errorf("--pcap: another program writes its packets to %s; try: another file", file)
	}
	return file, errors.WithMessage(os.Remove(file), "--pcap")
}

// Print writes the variables as commands for a shell.
func (s *Settings) Print(w io.Writer) error {
	variables, err := s.variables()
	if err != nil {
		return err
	}
	for _, v := range variables {
		if _, err := fmt.Fprintf(w, "export %s='%s'\n", v.name, strings.ReplaceAll(v.value, "'", `'\''`)); err != nil {
			return err
		}
	}
	return nil
}
