package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestPageHandlerServesThePageOnly(t *testing.T) {
	handler := pageHandler([]byte("<!doctype html>"))
	for path, want := range map[string]int{"/": http.StatusOK, "/engine.wasm": http.StatusNotFound} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("GET %s: status %d, want %d", path, w.Code, want)
		}
		if got := w.Header().Get("Content-Type"); want == http.StatusOK && got != "text/html; charset=utf-8" {
			t.Errorf("GET %s: content type %q", path, got)
		}
	}
}

func TestWritePageSaysWhereThePageIs(t *testing.T) {
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "laboratory.html")
	if err := writePage(&out, file, []byte("<!doctype html>")); err != nil || !strings.Contains(out.String(), file) {
		t.Errorf("%v: %q", err, out.String())
	}
	if err := writePage(&out, filepath.Join(file, "page.html"), nil); err == nil || !strings.Contains(err.Error(), "try:") {
		t.Errorf("a file in a file: %v", err)
	}
}
