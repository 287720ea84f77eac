module github.com/rawverbs/rawverbs

go 1.26

