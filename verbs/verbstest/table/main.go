// Command table prints what runs of the conformance cases found, case by device:
//
//	go run ./verbs/verbstest/table DIRECTORY
//
// The directory has the files that the runs left, see verbstest.Results. It fails
// if a case failed, or ran on one device and not on another.
package main

import (
	"fmt"
	"os"

	"github.com/rawverbs/rawverbs/verbs/verbstest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: table DIRECTORY")
		os.Exit(2)
	}
	all, err := verbstest.ReadResults(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
	if wrong := verbstest.FprintTable(os.Stdout, all); len(wrong) > 0 {
		for _, w := range wrong {
			fmt.Fprintln(os.Stderr, "table:", w)
		}
		os.Exit(1)
	}
}
