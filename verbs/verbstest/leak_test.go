package verbstest

import (
	"cmp"
	"flag"
	"os"
	"testing"
)

var leaks = flag.Int("leaks", 1000, "number of objects of each kind that TestLeaks creates and frees")

func TestLeaks(t *testing.T) {
	Leaks(t, cmp.Or(os.Getenv("RDMA_TEST_DEVICE"), "soft0"), *leaks)
}
