package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"

	"scalewm/dataset/parallel"
	"scalewm/dataset/safefile"
)

const (
	sumHeader   = "X-Amz-Meta-Sha256"
	maxParts    = 10000 // of an object, https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
	partsAtOnce = 4
)

// ErrOther is wrapped by the errors of putting a file once where another one of its name is.
var ErrOther = errors.New("the store has another file of that name")

// Moved is told how many more bytes of a file were transferred; it may be called from any goroutine.
type Moved func(bytes int)

// Snapshot is an open file as it was when it was opened; what is appended later is none of it.
type Snapshot struct {
	Name string // in the store
	path string
	f    *os.File
	size int64
	sum  string
}

// Snapshot opens a file that is to be put under a name.
func (s *Store) Snapshot(name, path string) (*Snapshot, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Snapshot{Name: name, path: path, f: f, size: st.Size()}, nil
}

func (p *Snapshot) Close() error { return p.f.Close() }

// Size is its length in bytes.
func (p *Snapshot) Size() int64 { return p.size }

// Sum is its SHA-256.
func (p *Snapshot) Sum() (string, error) {
	if p.sum != "" {
		return p.sum, nil
	}
	sum, err := sumOf(io.NewSectionReader(p.f, 0, p.size))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", p.path, err)
	}
	p.sum = sum
	return sum, nil
}

func sumOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// PutOnce puts a file that never changes. Where it is there already, with the same bytes,
// nothing is sent; other bytes are an error that wraps ErrOther.
func (s *Store) PutOnce(ctx context.Context, p *Snapshot, moved Moved) error {
	sum, err := p.Sum()
	if err != nil {
		return err
	}
	there, err := s.sum(ctx, p.Name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.put(ctx, p, true, moved); err == nil {
			return nil
		}
		if outrun(err) {
			there, err = s.sum(ctx, p.Name) // of another machine, or our own whose answer was lost
		}
	}
	if err == nil && there != sum {
		err = fmt.Errorf("%w, with the SHA-256 %.12s, and that of %s is %.12s (hint: they were made on different kinds of device, or by different commands; choose another prefix, or delete one of them)", ErrOther, there, p.path, sum)
	}
	return s.explain(fmt.Sprintf("pushing %s to %s", p.path, s.URL(p.Name)), err)
}

// Put puts a file in place of what is there.
func (s *Store) Put(ctx context.Context, p *Snapshot, moved Moved) error {
	_, err := p.Sum()
	if err == nil {
		err = s.put(ctx, p, false, moved)
	}
	if outrun(err) { // by ourselves: the answer was lost
		if there, err2 := s.sum(ctx, p.Name); err2 == nil && there == p.sum {
			err = nil
		}
	}
	return s.explain(fmt.Sprintf("pushing %s to %s", p.path, s.URL(p.Name)), err)
}

// sum is the SHA-256 of a file in the store.
func (s *Store) sum(ctx context.Context, name string) (sum string, err error) {
	err = s.retry(ctx, func() error {
		o, err := s.core.StatObject(ctx, s.bucket, s.key(name), minio.StatObjectOptions{})
		sum = o.Metadata.Get(sumHeader)
		return err
	})
	if status(err) == http.StatusNotFound && answer(err).Code != "NoSuchBucket" {
		return "", fs.ErrNotExist
	}
	return sum, err
}

// options are those of a put. The condition belongs to the request that gives the name.
func options(once bool) minio.PutObjectOptions {
	o := minio.PutObjectOptions{DisableContentSha256: true} // in pieces: the whole one's sum is sent
	if once {
		o.SetMatchETagExcept("*") // If-None-Match
	}
	return o
}

func (s *Store) put(ctx context.Context, p *Snapshot, once bool, moved Moved) error {
	if p.size > s.part {
		return s.putParts(ctx, p, once, moved)
	}
	o := options(once)
	o.UserMetadata = map[string]string{"Sha256": p.sum}
	return s.retry(ctx, func() error {
		return s.watch(ctx, io.NewSectionReader(p.f, 0, p.size), moved, func(ctx context.Context, r *watched) error {
			_, err := s.core.PutObject(ctx, s.bucket, s.key(p.Name), r, p.size, "", p.sum, o)
			return err
		})
	})
}

// putBytes puts a small text.
func (s *Store) putBytes(ctx context.Context, name string, text []byte, once bool) error {
	sum, err := sumOf(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.retry(ctx, func() error {
		_, err := s.core.PutObject(ctx, s.bucket, s.key(name), bytes.NewReader(text), int64(len(text)), "", sum, options(once))
		return err
	})
}

// putParts puts a large file, which has its name once all of its parts are there. What
// killed pushes of it left is removed then, with what slower ones have brought so far.
func (s *Store) putParts(ctx context.Context, p *Snapshot, once bool, moved Moved) (err error) {
	key := s.key(p.Name)
	o := options(false)
	o.UserMetadata = map[string]string{"Sha256": p.sum}
	var id string
	err = s.retry(ctx, func() error { id, err = s.core.NewMultipartUpload(ctx, s.bucket, key, o); return err })
	if err != nil {
		return err
	}
	each := max(s.part, (p.size+maxParts-1)/maxParts)
	parts := make([]minio.CompletePart, (p.size+each-1)/each)
	err = parallel.For(ctx, partsAtOnce, len(parts), func(_, i int) error {
		part := func() *io.SectionReader {
			return io.NewSectionReader(p.f, int64(i)*each, min(each, p.size-int64(i)*each))
		}
		sum, err := sumOf(part())
		if err != nil {
			return err
		}
		return s.retry(ctx, func() error {
			return s.watch(ctx, part(), moved, func(ctx context.Context, r *watched) error {
				done, err := s.core.PutObjectPart(ctx, s.bucket, key, id, i+1, r, part().Size(), minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: true})
				parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: done.ETag}
				return err
			})
		})
	})
	if err == nil {
		err = s.retry(ctx, func() error {
			_, err := s.core.CompleteMultipartUpload(ctx, s.bucket, key, id, parts, options(once))
			return err
		})
	}
	if err == nil {
		err = s.retry(ctx, func() error { return s.core.RemoveIncompleteUpload(ctx, s.bucket, key) })
	}
	if err != nil { // the error that matters is err
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), s.pace/looks)
		defer stop()
		s.core.AbortMultipartUpload(ctx, s.bucket, key, id)
	}
	return err
}

// Get writes a file of the store to path, which has its name only once its bytes are
// known to be those that were put. A transfer that breaks off goes on where it was.
func (s *Store) Get(ctx context.Context, name, path string, moved Moved) error {
	err := safefile.Fill(path, func(f *os.File) error {
		d := download{s: s, key: s.key(name), f: f, sum: sha256.New()}
		for {
			before := d.at
			err := s.retry(ctx, func() error { return s.watch(ctx, nil, moved, d.more) })
			if err == nil || ctx.Err() != nil || d.at <= before || !transient(err) {
				return err
			}
		}
	})
	return s.explain("pulling "+s.URL(name), err)
}

// download is a file on its way here.
type download struct {
	s    *Store
	key  string
	f    *os.File
	at   int64
	etag string
	sum  hash.Hash
}

// more reads on from where the last transfer broke off.
func (d *download) more(ctx context.Context, r *watched) error {
	o := minio.GetObjectOptions{}
	if d.at > 0 {
		o.SetMatchETag(d.etag)
		o.SetRange(d.at, 0)
	}
	body, info, header, err := d.s.core.GetObject(ctx, d.s.bucket, d.key, o)
	if status(err) == http.StatusPreconditionFailed { // it was put anew meanwhile
		return errors.Join(errTorn, d.restart())
	}
	if err != nil {
		return err
	}
	defer body.Close()
	want := header.Get(sumHeader)
	if want == "" {
		return fmt.Errorf("it has no checksum (hint: a file that another program put there; delete it, and let a machine that has it push it: scalewm reproduce … --remote)")
	}
	d.etag = info.ETag
	size := info.Size // of what is still to come
	r.r = body
	n, err := io.Copy(io.MultiWriter(d.f, d.sum), r)
	d.at += n
	switch {
	case err != nil:
		return err
	case n < size:
		return io.ErrUnexpectedEOF
	case hex.EncodeToString(d.sum.Sum(nil)) != want:
		return errors.Join(errTorn, d.restart())
	}
	return nil
}

// restart throws away what came.
func (d *download) restart() error {
	d.at = 0
	d.sum.Reset()
	_, err := d.f.Seek(0, io.SeekStart)
	return errors.Join(err, d.f.Truncate(0))
}

// watch runs a transfer and ends it when no byte moves for too long.
func (s *Store) watch(ctx context.Context, r io.Reader, moved Moved, transfer func(context.Context, *watched) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := &watched{r: r, timer: time.AfterFunc(s.stall, func() { stop(errStalled) }), after: s.stall, moved: moved}
	defer w.timer.Stop()
	err := transfer(ctx, w)
	if err != nil && context.Cause(ctx) == errStalled {
		return errStalled
	}
	return err
}

var errStalled = errors.New("the transfer stood still")

// watched reads the bytes of a transfer.
type watched struct {
	r     io.Reader
	timer *time.Timer
	after time.Duration
	moved Moved
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if n > 0 {
		w.timer.Reset(w.after)
		if w.moved != nil {
			w.moved(n)
		}
	}
	return n, err
}
