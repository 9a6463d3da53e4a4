package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"scalewm/dataset/safefile"
)

// lease is the content of a lock.
type lease struct {
	safefile.Owner
	Token string `json:"token"` // of this locking: process numbers are the same in many containers
	Beat  int    `json:"beat"`  // counts how often it was renewed
}

// Lock takes a name in the store for this process until release is called. It waits
// while another one has it. The owner renews its lock; one that is not renewed for
// three minutes, because its machine is lost, is free, and any is with Break. A machine
// that was only cut off then goes on beside the new owner: what is locked must be work
// that gives equal bytes, so that only time is lost.
//
// A lock is the object .locks/NAME.G with the highest number G. Who finds it free puts
// G+1 under the condition that it is not there, so that one process gets it.
func (s *Store) Lock(ctx context.Context, name string, o safefile.LockOptions) (release func(), err error) {
	prefix, said := ".locks/"+name+".", false
	mine, _ := json.Marshal(lease{Owner: safefile.Self(), Token: rand.Text()})
	var seen string // what the lock was when it was looked at, and since when
	var since time.Time
	for {
		held, err := s.list(ctx, prefix)
		if err != nil {
			return nil, s.explain("locking "+s.URL(name), err)
		}
		last, etag := 0, ""
		for _, h := range held {
			if g, err := strconv.Atoi(strings.TrimPrefix(h.Name, prefix)); err == nil && g > last {
				last, etag = g, fmt.Sprint(g, h.etag)
			}
		}
		if etag != seen {
			seen, since = etag, time.Now()
		}
		if last == 0 || o.Break || time.Since(since) > lockExpiry*s.pace {
			o.Break = false // of the one that was there, and not of who comes next
			key := prefix + strconv.Itoa(last+1)
			err := s.putBytes(ctx, key, mine, true)
			if status(err) == http.StatusPreconditionFailed && s.text(ctx, key) == string(mine) {
				err = nil // our own, whose answer was lost
			}
			if err == nil {
				for _, h := range held {
					s.Remove(ctx, h.Name) // what stays is below ours
				}
				return s.keep(ctx, key, mine), nil
			}
			if status(err) != http.StatusPreconditionFailed {
				return nil, s.explain("locking "+s.URL(name), err)
			}
			continue
		}
		if o.Note != nil && !said {
			said = true
			var l lease
			json.Unmarshal([]byte(s.text(ctx, prefix+strconv.Itoa(last))), &l) // one that is gone has no name to tell
			o.Note(fmt.Sprintf("%s is taken by %s, which is waited for until it is done or silent for %s (hint: if that is gone, --break-lock)", s.URL(name), l.Owner, lockExpiry*s.pace))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(s.pace / looks):
		}
	}
}

// keep renews a lock until it is released. One that was broken is neither renewed nor removed:
// its name may be that of another's lock since.
func (s *Store) keep(ctx context.Context, key string, text []byte) (release func()) {
	ctx = context.WithoutCancel(ctx) // it is ours as long as what it is for runs
	beating, stop := context.WithCancel(ctx)
	var l lease
	json.Unmarshal(text, &l) // which we wrote
	isOurs := func(ctx context.Context) bool {
		var there lease
		return json.Unmarshal([]byte(s.text(ctx, key)), &there) == nil && there.Token == l.Token
	}
	var end sync.WaitGroup
	end.Go(func() {
		for {
			select {
			case <-beating.Done():
				return
			case <-time.After(s.pace):
			}
			l.Beat++
			if text, _ := json.Marshal(l); isOurs(beating) {
				s.putBytes(beating, key, text, false) // what is lost is a turn
			}
		}
	})
	return func() {
		stop()
		end.Wait()
		ctx, stop := context.WithTimeout(ctx, 2*s.pace/looks)
		defer stop()
		if isOurs(ctx) {
			s.Remove(ctx, key) // or else it expires
		}
	}
}

// text is a small object, "" where there is none.
func (s *Store) text(ctx context.Context, name string) (text string) {
	s.retry(ctx, func() error {
		body, _, _, err := s.core.GetObject(ctx, s.bucket, s.key(name), minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer body.Close()
		b, err := io.ReadAll(io.LimitReader(body, int64(safefile.MaxRecord)))
		text = string(b)
		return err
	})
	return text
}
