package hangs

import "testing"

func TestHangs(t *testing.T) {
	go func() { select {} }()
	<-make(chan int)
}
