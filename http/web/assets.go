package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"path"
	"strings"
)

// Asset is a file that pages load. Its name has a hash of its contents, so it may be
// cached for good.
type Asset struct {
	Name, Media string
	Body        []byte
	// Packed is Body compressed with gzip.
	Packed []byte
}

var (
	//go:embed assets/page.css
	styleSource []byte
	//go:embed assets/page.js
	scriptSource []byte
	//go:embed assets/icon.svg
	iconSource []byte

	style  = newAsset("page.css", "text/css; charset=utf-8", styleSource)
	script = newAsset("page.js", "text/javascript; charset=utf-8", scriptSource)
	icon   = newAsset("icon.svg", "image/svg+xml", iconSource)
)

func newAsset(name, media string, body []byte) *Asset {
	sum, extension := sha256.Sum256(body), path.Ext(name)
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	_, _ = w.Write(body)                                       // a buffer takes all
	_ = w.Close()
	return &Asset{
		Name:  strings.TrimSuffix(name, extension) + "-" + hex.EncodeToString(sum[:8]) + extension,
		Media: media, Body: body, Packed: packed.Bytes(),
	}
}

// Assets are all files that pages load.
var Assets = []*Asset{style, script, icon}
