package tensorfile

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/dataset/safefile/fuzztest"
)

// Files that torch.save wrote, with their contents according to PyTorch
// (testdata/pt.py): every data type, shared and strided storages, parameters, a state
// dict inside a trainer's dict, two protocols.
func TestParsePT(t *testing.T) {
	b, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string]map[string]struct {
		DType  string
		Shape  []int
		Values []float64
	}
	if err := json.Unmarshal(b, &expected); err != nil {
		t.Fatal(err)
	}
	for file, tensors := range expected {
		t.Run(file, func(t *testing.T) {
			f, err := Open(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Names()) != len(tensors) {
				t.Errorf("tensors %v, want %d", f.Names(), len(tensors))
			}
			for name, want := range tensors {
				got, err := f.Float64(name)
				shape, _ := f.Shape(name)
				if err != nil || f.DType(name) != want.DType || !cmp.Equal(shape, want.Shape) || !cmp.Equal(got, want.Values) {
					t.Errorf("%s: %s %v %v %v, want %+v", name, f.DType(name), shape, got, err, want)
				}
			}
		})
	}
}

func TestRefusesPT(t *testing.T) {
	for file, want := range map[string]string{
		"module.pt":         `a pickled object of "torch.nn.modules.linear.Linear", not a state dict; nothing was run (hint: in Python, m = torch.load(p, weights_only=False); torch.save(m.state_dict(), "weights.pt"))`,
		"module_in_dict.pt": `pickled modules instead of state dicts: net of "torch.nn.modules.linear.Linear"; nothing was run (hint: in Python, m = torch.load(p, weights_only=False)["net"]; torch.save`,
		"object.pt":         `entry "mode" is an object of "__main__.Mode", which no state dict needs; nothing was run`,
		"complex.pt":        `tensor "w": its storage is a "torch.ComplexFloatStorage"`,
		"expanded.pt":       "does not lie in its storage of 1",
		"list.pt":           "no dict",
		"number.pt":         `entry "n" is not a tensor`,
		"legacy.pt":         "PyTorch before 1.6",
		"several_2.ckpt":    `4 state dicts: "others", "scale", "ckpt.model", "ckpt.ema"`,
		"missing.pt":        "opening weights",
	} {
		_, err := Open(filepath.Join("testdata", file))
		refuses(t, file, err, want)
	}
	whole, err := os.ReadFile("testdata/plain.pt")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ParsePT(whole[:len(whole)-100])
	refuses(t, "torn", err, "not a complete file")
	z, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		if at, err := f.DataOffset(); err == nil && f.Name == "plain/data/1" {
			whole[at]++
		}
	}
	_, err = ParsePT(whole)
	refuses(t, "changed", err, "has changed since it was written")
}

func refuses(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("%s: %v, want %q and a hint", name, err, want)
	}
}

// archiveOf returns a file of torch.save with a pickle and one storage "0" of 4
// float32 numbers.
func archiveOf(t testing.TB, pickle string, method uint16) []byte {
	t.Helper()
	return archiveWith(t, pickle, method, 4)
}

// archiveWith is archiveOf with a storage of count numbers.
func archiveWith(t testing.TB, pickle string, method uint16, count int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"data.pkl": pickle, "data/0": strings.Repeat("\x00\x00\x80\x3f", count)} {
		h := zip.FileHeader{Name: "archive/" + name, Method: method, UncompressedSize64: uint64(len(text)),
			CompressedSize64: uint64(len(text)), CRC32: crc32.ChecksumIEEE([]byte(text))}
		w, err := z.CreateRaw(&h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// text and num return the opcodes that push a string and a 32-bit number.
func text(s string) string { return fmt.Sprintf("\x8c%c%s", len(s), s) }
func num(n uint32) string {
	return "J" + string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
}

// tensorOf returns the pickle of {"w": tensor} with a storage of count numbers, from
// the opcodes of offset, shape and strides.
func tensorOf(storage string, count uint32, rest string) string {
	return "\x80\x02}" + text("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage + "\n" +
		text("0") + text("cpu") + num(count) + "tQ" + rest + "\x89}tRs."
}

// wTensor is the opcodes of a tensor on that storage.
var wTensor = strings.TrimSuffix(strings.TrimPrefix(tensorOf("FloatStorage", 4, num(1)+num(3)+"\x85"+num(1)+"\x85"), "\x80\x02}"+text("w")), "s.")

// Pickles that would run code in Python, crash it or exhaust its memory are errors.
func TestHostilePickles(t *testing.T) {
	shape := func(offset, d, stride uint32) string { return num(offset) + num(d) + "\x85" + num(stride) + "\x85" }
	good := tensorOf("FloatStorage", 4, shape(1, 3, 1))
	if f, err := ParsePT(archiveOf(t, good, zip.Store)); err != nil || len(f.Names()) != 1 {
		t.Fatalf("the pickle that the others are spoilt from: %v", err)
	}
	for name, c := range map[string]struct{ pickle, want string }{
		"os.system":           {"cos\nsystem\n(" + text("touch /owned") + "tR.", `pickled object of "os.system"`},
		"builtins.eval":       {"\x80\x04" + text("builtins") + text("eval") + "\x93" + text("1") + "\x85R.", `pickled object of "builtins.eval"`},
		"its result called":   {"cos\ngetattr\n)R)R.", `pickled object of "os.getattr"`},
		"a function itself":   {"cos\nsystem\n.", "no dict"},
		"INST":                {"(ios\nsystem\n.", "opcode 0x69"},
		"OBJ":                 {"(cos\nsystem\no.", "opcode 0x6f"},
		"NEWOBJ of a number":  {num(1) + ")\x81.", "torn"},
		"NEWOBJ_EX of two":    {"cos\nsystem\n)\x92.", "torn"},
		"EXT1":                {"\x82\x01.", "opcode 0x82"},
		"NEXT_BUFFER":         {"\x97.", "opcode 0x97"},
		"long name":           {"c" + strings.Repeat("m", maxGlobal) + "\nname\n.", "torn"},
		"object as entry":     {"}" + text("w") + "cos\nsystem\n)Rs" + text("v") + wTensor + "s.", `entry "w" is an object of "os.system"`},
		"object from memo":    {"cos\nsystem\n)Rq\x000}" + text("v") + wTensor + "s" + text("w") + "h\x00s.", `entry "w" is an object of "os.system"`},
		"object as storage":   {"}" + text("w") + "ctorch._utils\n_rebuild_tensor_v2\n(cos\nsystem\n)R" + num(0) + "))tRs.", `tensor "w": the pickle is torn`},
		"object as shape":     {tensorOf("FloatStorage", 4, num(0)+"cos\nsystem\n)R)"), `tensor "w": the pickle is torn`},
		"tensor by NEWOBJ":    {"}" + text("v") + wTensor + "s" + text("w") + strings.Replace(wTensor, "tR", "t\x81", 1) + "s.", `entry "w" is an object of "torch._utils._rebuild_tensor_v2"`},
		"object as parameter": {"}" + text("v") + wTensor + "s" + text("w") + "ctorch._utils\n_rebuild_parameter\n(cos\nsystem\n)R\x89}tRs.", `entry "w" is an object`},
		"items of an object":  {"cos\nsystem\n)R" + text("w") + wTensor + "s.", `pickled object of "os.system"`},
		"global as entry":     {"}" + text("v") + wTensor + "s" + text("w") + "cos\nsystem\ns.", `entry "w" is not a tensor`},
		"a set as dict":       {"\x8f(" + text("w") + wTensor + "\x90.", `pickled object of "set"`},
		"ADDITEMS to a tuple": {")(" + num(1) + "\x90.", "torn"},
		"POP of nothing":      {"0.", "torn"},
		"POP_MARK of nothing": {"1.", "torn"},
		"GET of a word":       {"gx\n.", "torn"},
		"INT of a word":       {"Ione\n.", "torn"},
		"memo of a mark":      {"(q\x00.", "torn"},
		"long bytes":          {"\x8e\xff\xff\xff\xff\xff\xff\xff\xffw", "torn"},
		"long LONG4":          {"\x8b\xff\xff\xff\xffw", "torn"},
		"other persistent":    {"}" + text("v") + wTensor + "s" + text("w") + text("file:///etc/passwd") + "Qs.", "not a tensor"},
		"empty":               {"", "torn"},
		"no value":            {".", "torn"},
		"a mark as value":     {"(.", "torn"},
		"underflow":           {"R.", "torn"},
		"BUILD of nothing":    {"b.", "torn"},
		"TUPLE without mark":  {"t.", "torn"},
		"SETITEMS of a half":  {"}(" + text("w") + "u.", "torn"},
		"APPEND to a number":  {num(1) + num(2) + "a.", "torn"},
		"missing memo":        {"h\x07.", "torn"},
		"long string":         {"X\xff\xff\xff\x7fw", "torn"},
		"long integer":        {"\x8a\xff" + strings.Repeat("\x01", 255) + ".", `pickled object of "int"`},
		"call of a string":    {text("w") + ")R.", "torn"},
		"OrderedDict(…)":      {"ccollections\nOrderedDict\n" + num(1) + "\x85R.", `pickled object of "collections.OrderedDict"`},
		"parameter of a dict": {"ctorch._utils\n_rebuild_parameter\n(}\x89}tR.", `pickled object of "torch._utils._rebuild_parameter"`},
		"itself":              {"}q\x00" + text("w") + "h\x00s.", "no state dict"},
		"other storage":       {tensorOf("ComplexFloatStorage", 4, shape(0, 1, 1)), `its storage is a "torch.ComplexFloatStorage"`},
		"storage of others":   {tensorOf("FloatStorage", 5, shape(0, 1, 1)), "16 bytes for 5 numbers"},
		"negative storage":    {tensorOf("FloatStorage", 1<<31, shape(0, 1, 1)), "16 bytes for -"},
		"behind the end":      {tensorOf("FloatStorage", 4, shape(2, 3, 1)), "does not lie in"},
		"far offset":          {tensorOf("FloatStorage", 4, shape(1<<30, 1, 1)), "does not lie in"},
		"negative offset":     {tensorOf("FloatStorage", 4, shape(1<<31, 1, 1)), "does not lie in"},
		"negative axis":       {tensorOf("FloatStorage", 4, shape(0, 1<<31, 1)), "does not lie in"},
		"negative stride":     {tensorOf("FloatStorage", 4, shape(3, 2, 0xffffffff)), "strides [-1]"},
		"wide stride":         {tensorOf("FloatStorage", 4, shape(0, 2, 4)), "does not lie in"},
		"repeated number":     {tensorOf("FloatStorage", 4, shape(0, 1<<30, 0)), "does not lie in"},
		"axes unlike":         {tensorOf("FloatStorage", 4, num(0)+num(1)+"\x85)"), "torn"},
		"axis of a string":    {tensorOf("FloatStorage", 4, num(0)+text("3")+"\x85"+num(1)+"\x85"), "torn"},
	} {
		_, err := ParsePT(archiveOf(t, c.pickle, zip.Store))
		refuses(t, name, err, c.want)
	}
	_, err := ParsePT(archiveOf(t, good, zip.Deflate))
	refuses(t, "compressed", err, "is compressed")
}

// A thousand tensors on one storage claim far more numbers than the file has.
func TestBoundedPT(t *testing.T) {
	one := "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + num(4) +
		"tQ" + num(0) + num(4) + "\x85" + num(1) + "\x85\x89}tRq\x00" // memo 0
	p := "\x80\x02}" + text("w") + one + "s"
	for i := range 1000 {
		p += text(fmt.Sprint(i)) + "h\x00s"
	}
	b := archiveOf(t, p+".", zip.Store)
	if _, err := ParsePT(b); err != nil {
		t.Fatalf("16 kB of tensors in a file of %d bytes: %v", len(b), err)
	}
	f, _ := ParsePT(b)
	refuses(t, "a smaller file", f.bounded(3000), "more than four times")
	large := strings.ReplaceAll(p+".", num(4), num(4000))
	_, err := ParsePT(archiveWith(t, large, zip.Store, 4000))
	refuses(t, "larger tensors", err, "more than four times")
}

// Files that WritePT writes are read back.
func TestWritePT(t *testing.T) {
	ts := append(sample(), Tensor{Name: "empty", Shape: []int{0, 3}, F32: []float32{}})
	var a, b bytes.Buffer
	if err := WritePT(&a, ts); err != nil {
		t.Fatal(err)
	}
	if err := WritePT(&b, ts); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("equal tensors give other bytes (%v)", err)
	}
	f, err := ParsePT(a.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range ts {
		got, err := f.Tensor(want.Name)
		if err != nil || !cmp.Equal(got.Float64(), want.Float64()) || len(got.Shape) != len(want.Shape) {
			t.Errorf("%s came back as %+v (%v), want %+v", want.Name, got, err, want)
		}
	}
	if len(f.Names()) != len(ts) {
		t.Errorf("tensors %v", f.Names())
	}
}

// Verifying many entries that share the same bytes would take time proportional to
// their number times the size of the file.
func TestEntriesDoNotOverlap(t *testing.T) {
	var w bytes.Buffer
	z := zip.NewWriter(&w)
	body := make([]byte, 1000)
	for i := range 2 {
		part, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("x/data/%d", i), Method: zip.Store, CRC32: crc32.ChecksumIEEE(body),
			CompressedSize64: uint64(len(body)), UncompressedSize64: uint64(len(body))})
		if err == nil && i == 0 {
			_, err = part.Write(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	b := w.Bytes()
	clear(b[bytes.LastIndex(b, []byte("PK\x01\x02"))+42:][:4]) // the second begins where the first does
	a, err := newArchive(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.entry("data/0"); err != nil {
		t.Error(err)
	}
	if _, err := a.entry("data/1"); err == nil || !strings.Contains(err.Error(), "overlaps another") {
		t.Errorf("the same bytes again: %v", err)
	}
}

// trainerFiles returns the paths of the files of trainers.
func trainerFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/*.ckpt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files to begin with", err)
	}
	return files
}

func FuzzParsePT(f *testing.F) {
	files, err := filepath.Glob("testdata/*.pt")
	if err != nil || len(files) == 0 {
		f.Fatal("no files to begin with", err)
	}
	for _, path := range append(files, trainerFiles(f)...) {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Read(t, len(b), func() {
			file, err := ParsePT(b)
			if err != nil {
				return
			}
			for _, n := range file.Names() {
				if v, err := file.Float64(n); err == nil && len(v)*2 > 4*len(b) {
					t.Errorf("%s: %d numbers of a file of %d bytes", n, len(v), len(b))
				}
			}
		})
	})
}

// The pickle is fuzzed separately, since few mutations of an archive preserve its
// checksums.
func FuzzPickle(f *testing.F) {
	f.Add(pickleOf(sample()))
	f.Add("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94" + text("w") + "\x94]\x94(K\x01M\x02\x00J\x03\x00\x00\x00G?\xf0\x00\x00\x00\x00\x00\x00e0N\x88\x85.")
	f.Add(tensorOf("FloatStorage", 4, num(0)+num(2)+num(2)+"\x86"+num(2)+num(1)+"\x86"))
	for _, path := range trainerFiles(f) {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		a, err := newArchive(b)
		if err != nil {
			f.Fatal(err)
		}
		pickle, err := a.entry("data.pkl")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(pickle))
	}
	storage := make([]byte, 16)
	f.Fuzz(func(t *testing.T, pickle string) {
		u := unpickler{r: bytes.NewReader([]byte(pickle))}
		file := &File{PT: true, archive: &archive{bytes: storage, storages: map[string][]byte{"0": storage}}}
		fuzztest.Read(t, len(pickle), func() {
			v, err := u.run()
			if d, ok := v.(*dict); ok && err == nil {
				file.search(d)
			} else if err == nil && noState(v) == nil {
				t.Error("no error for a pickle without a state dict")
			}
		})
		for _, s := range file.States() {
			if len(s.Names) == 0 || strings.Count(s.Path, ".") > maxKeys*maxKey {
				t.Errorf("a state dict %q of %d tensors", s.Path, len(s.Names))
			}
			file.Rest(s)
			if file.Select(s) != nil {
				continue
			}
			for _, n := range file.Names() {
				if x, err := file.Float64(n); err == nil && len(x) > len(storage) {
					t.Errorf("%d numbers of a storage of %d bytes", len(x), len(storage))
				}
			}
		}
	})
}

// Files of trainers, with their contents according to PyTorch (testdata/trainers.py): objects
// of many classes and tensors of any kind next to the state dicts, in four protocols.
func TestStates(t *testing.T) {
	b, err := os.ReadFile("testdata/trainers.json")
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string]struct {
		States map[string]map[string][]float64
		Rest   []string
	}
	if err := json.Unmarshal(b, &expected); err != nil || len(expected) < 7 {
		t.Fatal(len(expected), err)
	}
	for file, want := range expected {
		b, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		f, err := ParseStates(file, b)
		if err != nil {
			t.Error(err)
			continue
		}
		found := 0
		for _, s := range f.States() {
			tensors, ok := want.States[s.Path]
			if !ok {
				continue
			}
			if found++; found == 1 {
				if rest := f.Rest(s); !slices.Equal(rest, want.Rest) {
					t.Errorf("%s: besides %s there are %q, want %q", file, s.Path, rest, want.Rest)
				}
			}
			if err := f.Select(s); err != nil || len(f.Names()) != len(tensors) || !slices.Equal(s.Names, f.Names()) {
				t.Errorf("%s: %s has %v, %v", file, s.Path, f.Names(), err)
			}
			for name, values := range tensors {
				if got, err := f.Float64(name); err != nil || !slices.Equal(got, values) {
					t.Errorf("%s: %s of %s is %v, %v, want %v", file, name, s.Path, got, err, values)
				}
			}
		}
		if found != len(want.States) {
			t.Errorf("%s: %d of %d state dicts found", file, found, len(want.States))
		}
	}
}

// A few bytes of a pickle can refer to the same long value again and again. Neither memory
// nor time may grow with the product.
func TestRepeatedReferences(t *testing.T) {
	const n = 1 << 12
	many := "(" + strings.Repeat("K\x01", n) + "tq\x00" // a tuple of n ones, in the memo
	shapes := many + "}" + text("w") + wTensor + "s"
	for i := range n {
		shapes += text(fmt.Sprint(i)) + "ctorch._utils\n_rebuild_tensor_v2\n(NK\x00h\x00h\x00tRs"
	}
	deep := "}" + strings.Repeat(text(strings.Repeat("k", 100))+"}", n) + text("w") + wTensor + strings.Repeat("s", n+1)
	long := "X\x00\x00\x01\x00" + strings.Repeat("k", 1<<16)
	wide := "}" + long + "}" + strings.Repeat(text("k")+"]s", n) + text("w") + wTensor + "ss"
	names := "}" + text("w") + long + "q\x010" + text("n") + "q\x020" + strings.Repeat("h\x01h\x02\x930", n) + "Ns"
	for name, p := range map[string]string{"shapes": shapes + ".", "deep": deep + ".", "wide": wide + ".", "names": names + "."} {
		b := archiveOf(t, p, zip.Store)
		fuzztest.Read(t, len(b), func() {
			f, err := openPT(b)
			if err == nil {
				err = f.selectOnly()
			}
			if err == nil || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if ones := slices.Repeat(tuple{int64(1)}, maxDims+1); isLarge(tensor{nil, nil, tuple{int64(1), int64(1)}, nil}) || !isLarge(tensor{nil, nil, ones, nil}) {
		t.Error("a shape of more axes than PyTorch has is read to its end")
	}
}

// The encodings of numbers in a pickle, written by hand from Python's pickletools.
func TestPickleNumbers(t *testing.T) {
	for p, want := range map[string]any{
		"K\xff.": int64(255), "M\x01\x02.": int64(513), "J\xff\xff\xff\xff.": int64(-1), "\x8a\x00.": int64(0),
		"\x8a\x01\x80.": int64(-128), "\x8a\x06\x00\x00\x00\x00\x00\x01.": int64(1 << 40),
		"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.": int64(math.MaxInt64), "G\xc0\x04\x00\x00\x00\x00\x00\x00.": -2.5,
		"I17\n.": int64(17), "I01\n.": true, "I00\n.": false, "L-5L\n.": int64(-5), "F1.5\n.": 1.5, "I99999999999999999999\n.": object{class: "int"},
		"\x8b\x02\x00\x00\x00\x01\x01.": int64(257), "\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09N0.": object{class: "int"},
		"Vword\n.": "word", "U\x02ab.": "ab", "T\x02\x00\x00\x00ab.": "ab", "\x8d\x02\x00\x00\x00\x00\x00\x00\x00ab.": "ab", "S'ab'\n.": object{class: "str"},
		"C\x02ab.": object{class: "bytes"}, "B\x02\x00\x00\x00ab.": object{class: "bytes"}, "\x96\x02\x00\x00\x00\x00\x00\x00\x00ab.": object{class: "bytearray"},
		"K\x01p300\nK\x020g300\n.": int64(1), "K\x01(0.": int64(1), "K\x01(K\x021.": int64(1), "(K\x01\x91.": object{class: "frozenset"},
		"N.": nil, "\x88.": true, "\x89.": false, "X\x02\x00\x00\x00\xc3\xa9.": "é", "K\x01q\x05K\x020h\x05.": int64(1),
	} {
		u := unpickler{r: bytes.NewReader([]byte(p))}
		if v, err := u.run(); err != nil || v != want {
			t.Errorf("%q is %v, %v, want %v", p, v, err, want)
		}
	}
}
