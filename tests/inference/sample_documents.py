"""Files of several kinds, made as small as their kinds allow."""

import base64
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

RADIUM = (
    "Radium was discovered by Marie Curie and Pierre Curie in 1898. "
    "They found it in a uraninite sample from Jachymov."
)
MARKDOWN = """\
# Radium

Radium is a *chemical* element.

## Discovery

Radium was discovered by [Marie Curie](https://example.org) in 1898.
They found it in `uraninite`.

| unit | named after |
| --- | --- |
| curie | Pierre Curie |

## Uses

- It lit the dials of watches.
"""
HTML = """\
<html><head><title>Radium page</title><script>alert("never run")</script></head><body>
<nav>Home | About</nav><article><h1>Radium</h1>
<p>Radium was discovered by Marie Curie and Pierre Curie in 1898, in Paris, after years of work.</p>
<h2>Source</h2><p>They found it in a uraninite sample from Jachymov, a town in Bohemia.</p>
</article><script>evil()</script></body></html>
"""
# A PDF that says "Radium shines.", encrypted with AES and without a password to open it.
AES_PDF = zlib.decompress(
    base64.b85decode(
        "c-oCry=xRf6h{z*u@baWWDp{P=+5`f%6X9F?li`bkkd43F|#|9oLqLp-dsqmY%PLC5EMZXto#Q=2nb@A!otSFDjKi}7D"
        "jBH-CS~qm%`m;dGGD-{ocpCw<9yP#wC22f|0FnpFRT&5zO>`P^p06*6Nah!MJj&oy~(_M$MZJBpxses#RdpqyUm3hY|;"
        "Z$yU;VcOWhB@E!=pvu^4j9&n|Hx)y<Q<Dq+zf+>@<)L6FSxsbmFCNPXh!8mI=SvQY;QUyaJ^FF13A=^*VKR$5kJYNU$e"
        "^O^d@e2+RG`rfBYGK467*icnvIo~qd)c^FtOi*40Lx92&btLDQSrUwa-$Z(yAw|*F77@N=W9D#e;%Iwc<lMrm(PyuM5l"
        "kQZM@1)ojdY+vHSJMqjd!DZoGNFdveoE9{tX;-*4AGJbv-(${Ct$ZmqH#*S5c`AK%U|Ocil^)V&PEU>z;jHn1XNERl*7"
        "CW=}T6HXPAG*MOy8HUnOsZ>Ik^dJ+3OmRYW%y@*9kjQFP9Vjpypr3=x_q}-aO2tI_1A~l2ED|A!i0^-^?Mx1Xrc-I6@&"
        "p9auo8w^T8$!!2uY~Ylo1*l#Ra1=k|9Q3#)R6KTPd}TBI+}VW5q2dnj!1Y@iwf)hFO7-Mlp^UVM0-C2-lJ*CbU7Ccvoh"
        ")VJ75KF)SEDUKiF{g)oxEG&IT~X}Y8*jdtBaeYqI8pq9ncOC~KqQ!p5<H|I#dP_aKxO}E&9djy4&A1M8nt>nf61SLQR7"
        "ZjXR4lO*eVLv(Lm$YvaY{=%jGGrqh57{Ugwy{HSoQb~8<*L;-d3m<Y)&t{H4ra5=@9Ez1O{6x1q9@n<3RZ+g+;YtXQHh"
        "9csF7rxYeW6GNiO2*|3Lim*3&p&U2-toU&@YCxhoqdx&IrD)TbNZFCbJ!yZ"
    )
)
_DOCX_PARTS = {
    "[Content_Types].xml": """<?xml version="1.0"?><Types
 xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels"
 ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override
 PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.\
wordprocessingml.document.main+xml"/></Types>""",
    "_rels/.rels": """<?xml version="1.0"?><Relationships
 xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
 Target="word/document.xml"/></Relationships>""",
}
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def write_docx(path: Path, paragraphs: Sequence[tuple[str, str]]) -> Path:
    """Write paragraphs of (style, text); a style may be '' or 'Heading1'."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    document = (
        f'<?xml version="1.0"?><w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    )
    with zipfile.ZipFile(path, "w") as package:
        for name, content in {**_DOCX_PARTS, "word/document.xml": document}.items():
            package.writestr(name, content)
    return path


def write_pdf(path: Path, pages: Sequence[Sequence[str]], title: str = "") -> Path:
    """Write pages of lines in Helvetica; a page without lines has no text."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        shown = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
        content = f"BT /F1 12 Tf 72 720 Td {shown}ET"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R "
            f">> >> /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    objects.append(f"<< /Title ({title}) >>")
    text, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(text))
        text += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    text += f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    text += f"trailer\n<< /Size {size} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n"
    text += f"{text.index('xref')}\n%%EOF\n"
    path.write_bytes(text.encode("latin-1"))
    return path
