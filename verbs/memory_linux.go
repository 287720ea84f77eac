package verbs

import "golang.org/x/sys/unix"

// mapHugePages is the flag of mmap for huge pages.
const mapHugePages = unix.MAP_HUGETLB
