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

// lease is the content of a lock object.
type lease struct {
	safefile.Owner
	// Token is random and identifies this locking: in containers, hosts and process
	// ids are often equal.
	Token string `json:"token"`
	// Beat counts renewals. It changes the bytes of the object and thereby its ETag,
	// by which waiting processes see that the owner is alive.
	Beat int `json:"beat"`
}

// Lock locks a name in the store for this process until release is called. It waits
// while another process holds the lock, or until ctx ends.
//
// The owner renews its lock. A lock that is not renewed for three minutes, because
// its machine is lost, is free; with LockOptions.Break any lock is. A machine that
// was only disconnected then continues next to the new owner. Lock only what produces
// the same bytes on every machine, so that nothing but time is lost.
//
// The lock of a name is the object .locks/NAME.G with the highest number G. A process
// that finds it free puts G+1 under the condition that it does not exist, so that the
// server lets exactly one process win. Overwriting or deleting the old object first
// would let two processes succeed, one after the other.
func (s *Store) Lock(ctx context.Context, name string, o safefile.LockOptions) (release func(), err error) {
	prefix, noted := ".locks/"+name+".", false
	mine, _ := json.Marshal(lease{Owner: safefile.Self(), Token: rand.Text()})
	// seen is the newest lock at the last look, as number and ETag, and since the
	// local time when it was first seen like that. Only local times are compared: the
	// clocks of the owner and the server may be wrong.
	var seen string
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
			// Break applies to the lock just found, not to that of the next owner.
			o.Break = false
			key := prefix + strconv.Itoa(last+1)
			err := s.putBytes(ctx, key, mine, true)
			if status(err) == http.StatusPreconditionFailed && s.text(ctx, key) == string(mine) {
				// Our own put, whose answer was lost and which retry repeated.
				err = nil
			}
			if err == nil {
				for _, h := range held {
					// An object that remains has a lower number than ours and does no
					// harm.
					s.Remove(ctx, h.Name)
				}
				return s.renew(ctx, key, mine), nil
			}
			if status(err) != http.StatusPreconditionFailed {
				return nil, s.explain("locking "+s.URL(name), err)
			}
			continue
		}
		if o.Note != nil && !noted {
			noted = true
			var l lease
			// If the lock has just been released, the message names nobody.
			json.Unmarshal([]byte(s.text(ctx, prefix+strconv.Itoa(last))), &l)
			o.Note(fmt.Sprintf("%s is locked by %s; waiting until that is done or silent for %s (hint: if that is gone, use --break-lock)", s.URL(name), l.Owner, lockExpiry*s.pace))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(s.pace / polls):
		}
	}
}

// renew renews a lock until release is called. If the lock was broken, it is neither
// renewed nor removed: its name may belong to another process by now.
func (s *Store) renew(ctx context.Context, key string, text []byte) (release func()) {
	// The lock outlives the context: an interrupted program still finishes and saves
	// its work under it.
	ctx = context.WithoutCancel(ctx)
	beating, stop := context.WithCancel(ctx)
	var l lease
	json.Unmarshal(text, &l)
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
				// A failure costs one renewal, and lockExpiry allows for several.
				s.putBytes(beating, key, text, false)
			}
		}
	})
	return func() {
		stop()
		end.Wait()
		ctx, stop := context.WithTimeout(ctx, 2*s.pace/polls)
		defer stop()
		if isOurs(ctx) {
			// If this fails, the lock expires.
			s.Remove(ctx, key)
		}
	}
}

// text returns the content of a small object, or "" if there is none.
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
