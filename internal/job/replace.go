// Output files that appear under their name only when they are whole.

package job

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
)

// Replaceable returns the path of a file that can be made or replaced, with links
// followed. It tries to write beside the file.
func Replaceable(name string) (string, error) {
	if info, err := os.Stat(name); err == nil {
		if !info.Mode().IsRegular() {
			return "", errors.Errorf("%s exists and is not a file; try: another name", name)
		}
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return "", err
		}
	}
	temporary, err := createBeside(name)
	if err != nil {
		return "", fmt.Errorf("%w; try: a file in a folder that exists and may be written", err)
	}
	temporary.Close()
	return name, os.Remove(temporary.Name())
}

// createBeside makes the file that takes the name's place once it is whole.
func createBeside(name string) (*os.File, error) {
	return os.OpenFile(name+".part-"+rand.Text()[:8], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// ReplaceFile writes a file so that its name always has a whole file, or none.
func ReplaceFile(name string, content io.WriterTo) (err error) {
	file, err := createBeside(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	out := bufio.NewWriter(file)
	if _, err = content.WriteTo(out); err == nil {
		err = out.Flush()
	}
	CloseAll(&err, file)
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
