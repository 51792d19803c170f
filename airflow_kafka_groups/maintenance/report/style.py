"""The style of the report: no external assets, light or dark, for print and phones too."""

STYLE = """
:root{color-scheme:light dark;--bg:#f7f8fa;--card:#fff;--text:#1b1f26;--soft:#5b6472;--line:#e2e5ea;--good:#1a7f4b;
--bad:#b3261e;--warn:#8a5a00;--warnbg:#fff4db;--badbg:#fde7e5;--dry:#1553a3;--drybg:#e5effc;--code:#eef0f4}
@media (prefers-color-scheme:dark){:root{--bg:#14171c;--card:#1d2128;--text:#e7eaf0;--soft:#9aa4b2;--line:#30363f;
--good:#5dcf94;--bad:#ff8a80;--warn:#ffcf70;--warnbg:#3a2f14;--badbg:#43201d;--dry:#8fbcff;--drybg:#182c47;--code:#2a303a}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 6px}
header p,.note,.more,.none{color:var(--soft);margin:0 0 10px}
code{background:var(--code);border-radius:4px;padding:1px 5px;font:13px/1.5 ui-monospace,Menlo,Consolas,monospace;
overflow-wrap:anywhere}
.banner{border-radius:8px;padding:10px 14px;margin:12px 0 0;background:var(--card);border:1px solid var(--line)}
.banner.dry{background:var(--drybg);color:var(--dry);border-color:currentColor;font-weight:600}
.banner.warn{background:var(--warnbg);color:var(--warn);border-color:currentColor}
.banner.bad{background:var(--badbg);color:var(--bad);border-color:currentColor;font-weight:600}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(128px,1fr));gap:10px;margin:18px 0 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.card b{display:block;font-size:25px;line-height:1.2;font-variant-numeric:tabular-nums}
.card span{color:var(--soft);font-size:13px}
.card.good b{color:var(--good)}
.card.bad{border-color:var(--bad)}
.card.bad b{color:var(--bad)}
.count{color:var(--soft);font-weight:400}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:10px}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:7px 12px;vertical-align:top;border-bottom:1px solid var(--line)}
tbody tr:last-child td{border-bottom:0}
th{color:var(--soft);font-weight:600;font-size:12.5px;white-space:nowrap}
td.num,th.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.pill{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:0 9px;font-size:12.5px;
white-space:nowrap}
.pill.failed,.pill.unknown{color:var(--bad);border-color:currentColor}
.pill.over_cap,.pill.doubt{color:var(--warn);border-color:currentColor}
td:first-child{min-width:200px}
td:last-child:not(:first-child){min-width:170px}
a{color:var(--dry);overflow-wrap:anywhere}
@media print{body{background:#fff}.card,.scroll{break-inside:avoid}}
"""
