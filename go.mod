module github.com/rawverbs/rawverbs

go 1.26

require github.com/pkg/errors v0.9.1
