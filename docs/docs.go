// Package docs has pages that rdma_lab prints parts of.
package docs

import _ "embed" // for the pages

var (
	// Glossary explains each term in a sentence or two.
	//
	//go:embed glossary.md
	Glossary string
	// QPStates has a table of what each state of a queue pair allows.
	//
	//go:embed qp-states.md
	QPStates string
)
