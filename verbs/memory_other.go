//go:build !linux

package verbs

// mapHugePages is 0: this system has no flag of mmap for huge pages.
const mapHugePages = 0
