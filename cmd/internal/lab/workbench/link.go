// A session as a link: JSON, compressed, in the alphabet of URLs.

package workbench

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"

	"github.com/pkg/errors"
)

// File is a session to keep: how it began, and its actions.
type File struct {
	Schema  string   `json:"schema"`  // fileSchema
	Version int      `json:"version"` // fileVersion
	Setup   Setup    `json:"setup"`
	Actions []Action `json:"actions"`
}

const (
	fileSchema  = "rawverbs-session"
	fileVersion = 1

	linkPrefix = "s1."
	maxFile    = 8 << 20 // bytes
)

// File returns the session as a File.
func (s *Session) File() File {
	return File{Schema: fileSchema, Version: fileVersion, Setup: s.setup, Actions: append([]Action{}, s.actions...)}
}

// Link returns the session for the fragment of a URL: "s1." and the File in base64url of raw deflate.
func (s *Session) Link() (string, error) {
	text, err := json.Marshal(s.File())
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(text); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return linkPrefix + base64.RawURLEncoding.EncodeToString(b.Bytes()), nil
}

// ParseFile reads a File: a link, or the JSON.
func ParseFile(text string) (f File, err error) {
	if packed, isLink := strings.CutPrefix(text, linkPrefix); isLink {
		raw, err := base64.RawURLEncoding.DecodeString(packed)
		if err != nil {
			return f, errors.WithMessage(err, "not a link of the laboratory")
		}
		json, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxFile+1))
		if err != nil {
			return f, errors.WithMessage(err, "not a link of the laboratory; perhaps it was cut off")
		}
		text = string(json)
	}
	if len(text) > maxFile {
		return f, errors.Errorf("a session of more than %d bytes", maxFile)
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return f, errors.WithMessage(err, "not a session")
	}
	if f.Schema != fileSchema || f.Version != fileVersion {
		return f, errors.Errorf("schema %q, version %d: this program reads %q, version %d", f.Schema, f.Version, fileSchema, fileVersion)
	}
	if len(f.Actions) > maxActions {
		return f, errors.Errorf("%d actions: a session has at most %d", len(f.Actions), maxActions)
	}
	return f, nil
}
