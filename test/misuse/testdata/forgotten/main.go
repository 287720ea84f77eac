// The command forgotten opens soft0 without the import of the software device.
package main

import (
	"fmt"

	"github.com/rawverbs/rawverbs/verbs"
)

func main() {
	_, err := verbs.Open("soft0")
	fmt.Println(err)
}
