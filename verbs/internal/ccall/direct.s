//go:build linux && cgo && amd64 && go1.26 && !go1.27 && !race && !msan && !asan && !cgocalls

// Without an assembly file in its package no function may be declared without a body, as
// one is in direct.go.
