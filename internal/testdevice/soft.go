//go:build !rdma

package testdevice

import (
	"testing"

	_ "github.com/rawverbs/rawverbs/softroce" // soft0
)

func name(testing.TB) string { return "soft0" }
