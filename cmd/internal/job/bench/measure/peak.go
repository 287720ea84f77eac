// The peak bandwidth: of all intervals from a post to a completion, the one with the most
// messages per time.

package measure

// peak records the times of a run's posts and completions, in nanoseconds.
type peak struct {
	wanted   bool // if false, only from and to are used
	from, to int64

	list      int64   // messages per post
	posts     []int64 // times of the posts
	completed []completion
	hull      []int // indexes of posts; see least
}

// completion is a time, and the number of messages that had completed by then.
type completion struct{ messages, at int64 }

// reset prepares for a run of total messages, posted list at a time.
func (p *peak) reset(wanted bool, total int64, list int) {
	p.wanted, p.from, p.to, p.list = wanted, 0, 0, int64(list)
	if !wanted {
		return
	}
	if need := int(total) / list; cap(p.posts) < need {
		p.posts = make([]int64, 0, need)
		p.hull = make([]int, 0, need)
	}
	if cap(p.completed) < int(total) {
		p.completed = make([]completion, 0, total)
	}
	p.posts, p.completed = p.posts[:0], p.completed[:0]
}

func (p *peak) post(at int64) {
	if len(p.posts) == 0 {
		p.from = at
	}
	p.posts = append(p.posts, at)
}

func (p *peak) complete(messages, at int64) {
	p.to = at
	p.completed = append(p.completed, completion{messages, at})
}

// least returns the shortest time per message of any interval, in nanoseconds, or 0 if there is
// none. Post i is the point (messages posted before it, time). A completion is the point
// (messages completed with it, time). The result is the smallest slope from a post to a later
// completion. Only posts on the upper hull can be its start, so a binary search finds the best
// post for each completion.
func (p *peak) least() float64 {
	best, found := 0.0, false
	p.hull = p.hull[:0]
	next := 0
	for _, c := range p.completed {
		for ; next < len(p.posts) && int64(next)*p.list < c.messages; next++ {
			p.extend(next)
		}
		if len(p.hull) == 0 {
			continue
		}
		low, high := 0, len(p.hull)-1
		for low < high {
			mid := (low + high) / 2
			if p.slope(p.hull[mid], c) > p.slope(p.hull[mid+1], c) {
				low = mid + 1
			} else {
				high = mid
			}
		}
		if s := p.slope(p.hull[low], c); !found || s < best {
			best, found = s, true
		}
	}
	return best
}

// slope returns the time per message from post i to a completion.
func (p *peak) slope(i int, c completion) float64 {
	return float64(c.at-p.posts[i]) / float64(c.messages-int64(i)*p.list)
}

// extend adds post i to the upper hull.
func (p *peak) extend(i int) {
	for len(p.hull) >= 2 {
		a, b := p.hull[len(p.hull)-2], p.hull[len(p.hull)-1]
		// b lies on or below the line from a to i.
		if (p.posts[b]-p.posts[a])*int64(i-a) > (p.posts[i]-p.posts[a])*int64(b-a) {
			break
		}
		p.hull = p.hull[:len(p.hull)-1]
	}
	p.hull = append(p.hull, i)
}
