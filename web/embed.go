// Package web has the pages of rawverbs as files: the laboratory with its engine, and the parts of the
// report. dist/ has the bundles that `make web` builds with node, and `make engine` adds the engine.
package web

import (
	"embed"
	"encoding/base64"
	"io/fs"
	"strings"

	"github.com/pkg/errors"
)

//go:embed dist
var dist embed.FS

// ErrNoEngine is the error of Laboratory in a program that was built before its engine.
var ErrNoEngine = errors.New("this program was built without the laboratory's engine; try: make (or: make engine && go build ./cmd/rdma_lab)")

// Laboratory returns the laboratory as one HTML file. The file needs no other file and no network.
// If the program was built without the engine, the error is ErrNoEngine.
func Laboratory() ([]byte, error) {
	engine, err := dist.ReadFile("dist/engine.wasm.gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoEngine
	}
	parts := map[string]string{"engine": base64.StdEncoding.EncodeToString(engine)}
	for name, file := range map[string]string{"page": "lab.html", "style": "lab.css", "script": "lab.js", "runtime": "wasm_exec.js", "licences": "LICENSES.txt"} {
		text, err := dist.ReadFile("dist/" + file)
		if err != nil {
			return nil, errors.WithMessage(err, "the laboratory's page; try: make web engine")
		}
		parts[name] = strings.TrimSpace(string(text))
	}
	return []byte(Fill(parts["page"], parts)), nil
}

// Fill replaces each {{name}} of a page by the part of that name.
func Fill(page string, parts map[string]string) string {
	var pairs []string
	for name, text := range parts {
		pairs = append(pairs, "{{"+name+"}}", text)
	}
	return strings.NewReplacer(pairs...).Replace(page)
}
