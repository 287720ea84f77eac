package build

var _ int = "no number"
