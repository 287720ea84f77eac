package main

import (
	"net/http"
	"net/http/httptest"
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
