module github.com/rawverbs/rawverbs/broken

go 1.26
