//go:build unix

// Starting a command, with the exit statuses of env(1).

package preload

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

// The exit statuses of env(1), nice(1) and timeout(1) for a command that was not started.
const (
	statusFailed    = 125 // rawverbs itself failed
	statusCannotRun = 126 // the command exists but cannot be run
	statusNotFound  = 127
)

// notStarted is the error of a command that was not started.
type notStarted struct {
	error
	status int
}

// ExitStatus returns the exit status of rawverbs.
func (e *notStarted) ExitStatus() int { return e.status }

func (e *notStarted) Unwrap() error { return e.error }

// Run replaces this process with a command. It returns only if that fails. The error has the
// method ExitStatus, unless it is a usage.Error.
func (s *Settings) Run(command []string) error {
	program, err := find(command[0])
	if err != nil {
		return err
	}
	if err := loadable(program); err != nil {
		return &notStarted{err, statusCannotRun}
	}
	variables, err := s.variables()
	if errors.As(err, new(usage.Error)) {
		return err
	}
	if err != nil {
		return &notStarted{err, statusFailed}
	}
	for _, v := range variables {
		if err := os.Setenv(v.name, v.value); err != nil {
			return &notStarted{errors.WithMessage(err, "setting "+v.name), statusFailed}
		}
	}
	signal.Reset() // a signal that was ignored when rawverbs was started is ignored by the command
	err = unix.Exec(program, command, os.Environ())
	if errors.Is(err, unix.ENOEXEC) {
		err = fmt.Errorf("%w; try: a first line that names the interpreter of the script, such as #!/bin/sh", err)
	}
	return &notStarted{errors.WithMessage(err, "starting "+program), statusCannotRun}
}

// find returns the path of a command.
func find(name string) (string, error) {
	program, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) { // PATH may name the current folder
		return program, nil
	}
	cause := err // without the words of the outer errors, which repeat the name
	for _, outer := range []any{new(*exec.Error), new(*fs.PathError)} {
		if errors.As(cause, outer) {
			cause = errors.Unwrap(cause)
		}
	}
	status, try := statusCannotRun, "chmod +x "+name+", if it is a program"
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		status, try = statusNotFound, "the path of a program, or the name of a program in a folder of PATH"
	case errors.Is(err, unix.EISDIR):
		try = "a program in it"
	}
	return "", &notStarted{fmt.Errorf("%s: %w; try: %s", name, cause, try), status}
}
