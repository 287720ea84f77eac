module github.com/rawverbs/rawverbs

go 1.26.0

require (
	github.com/pkg/errors v0.9.1
	golang.org/x/sys v0.49.0
)
