//go:build unix

// Programs into which Linux preloads nothing, or into which Go's libraries cannot be loaded.

package preload

import (
	"bufio"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// machines has the ELF machine of this build.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// loadable returns nil if the dynamic linker will preload the libraries into a program. Of a script, that is its
// interpreter, which also has the rights: Linux ignores those of scripts.
func loadable(program string) error {
	// The kernel follows as many scripts whose interpreter is a script.
	const most = 4
	file := program
	for range most {
		interpreter := scriptInterpreter(file)
		if interpreter == "" {
			break
		}
		file = interpreter
	}
	err := linkable(file)
	if privileged(file) {
		err = errors.Errorf("%s gets the rights of another user (setuid, setgid or capabilities), and Linux preloads nothing into such programs; "+
			"try: rawverbs as that user (sudo rawverbs run -- …), or a copy of the program, which has only your rights", file)
	}
	if err != nil && file != program {
		return errors.WithMessagef(err, "%s is a script", program)
	}
	return err
}

// privileged reports whether a program gets rights that this process does not have.
func privileged(program string) bool {
	info, err := os.Stat(program)
	if err != nil {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		if info.Mode()&os.ModeSetuid != 0 && int(owner.Uid) != os.Getuid() || info.Mode()&os.ModeSetgid != 0 && int(owner.Gid) != os.Getgid() {
			return true
		}
	}
	n, err := unix.Getxattr(program, "security.capability", nil)
	return err == nil && n > 0 && os.Getuid() != 0 // root has them already
}

// scriptInterpreter returns the interpreter that a script names in its first line, or "" if the file is no script.
func scriptInterpreter(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	const longest = 256 // the kernel's limit
	line, _ := bufio.NewReader(io.LimitReader(f, longest)).ReadBytes('\n')
	line, isScript := bytes.CutPrefix(line, []byte("#!"))
	words := bytes.Fields(line)
	if !isScript || len(words) == 0 {
		return ""
	}
	return string(words[0])
}

// linkable returns nil if a program's dynamic linker can load the libraries. Files other than ELF
// are left to the kernel.
func linkable(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return nil
	}
	defer f.Close()
	if want, known := machines[runtime.GOARCH]; known && f.Machine != want {
		return errors.Errorf("%s is a program for %v, and this rawverbs is for %v; try: a rawverbs built for that processor", program, f.Machine, want)
	}
	linker := dynamicLinker(f)
	switch {
	case linker == "":
		return errors.Errorf("%s is linked statically, so nothing can be preloaded; try: link it with the shared libibverbs "+
			"(a Go program can import github.com/rawverbs/rawverbs/softroce instead); or, if only programs that it starts use libibverbs, "+
			`eval "$(rawverbs env)"; %[1]s`, program)
	case strings.HasPrefix(filepath.Base(linker), "ld-musl"):
		return errors.Errorf("%s is linked with musl, which cannot load libraries written in Go; try: a build of the program for glibc, such as Debian's", program)
	}
	return nil
}

// dynamicLinker returns the dynamic linker of a program; "" if the program is static.
func dynamicLinker(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(p.Open()) // an unreadable name is as good as none
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}
