// Output files that get their name only when they are complete.

package kit

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
)

// Replaceable returns the path of a file that can be made or replaced. It follows symbolic
// links, and makes and removes a temporary file in the same folder as a test.
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

// createBeside makes a temporary file in the folder of name.
func createBeside(name string) (*os.File, error) {
	return os.OpenFile(name+".part-"+rand.Text()[:8], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// ReplaceFile writes a file. At any time, the name belongs to a complete file or to none.
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
