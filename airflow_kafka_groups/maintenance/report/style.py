"""The style of the report: no external assets, light or dark, for print and phones too."""

STYLE = """
:root{color-scheme:light dark;--bg:#f7f8fa;--card:#fff;--text:#1b1f26;--soft:#555e6b;--line:#e2e5ea;--good:#187344;
--bad:#b3261e;--warn:#7a5000;--warnbg:#fff4db;--badbg:#fde7e5;--dry:#1553a3;--drybg:#e5effc;--code:#eef0f4;
--live:#2b8a5e;--moving:#3f78c4;--settling:#aab4c2;--stale:#d9822b;--other:#8a6fb3;--other2:#6b7685}
@media screen and (prefers-color-scheme:dark){:root{--bg:#14171c;--card:#1d2128;--text:#e7eaf0;--soft:#a3adba;
--line:#30363f;--good:#5dcf94;--bad:#ff8a80;--warn:#ffcf70;--warnbg:#3a2f14;--badbg:#43201d;--dry:#8fbcff;
--drybg:#182c47;--code:#2a303a;--live:#4fb886;--moving:#6ea4ee;--settling:#5a6675;--stale:#f0a04b;--other:#b195df;
--other2:#8793a3}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 6px}
h3{font-size:14px;margin:0}
header p,.note,.more,.none{color:var(--soft);margin:0 0 10px}
code,pre{background:var(--code);border-radius:4px;font:13px/1.5 ui-monospace,Menlo,Consolas,monospace}
code{padding:1px 5px;overflow-wrap:anywhere}
td:has(>code){min-width:7em}
pre{padding:10px 14px;margin:8px 0;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all}
.banner{border-radius:8px;padding:10px 14px;margin:12px 0 0;background:var(--card);border:1px solid var(--line);
overflow-wrap:anywhere}
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
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:12px}
.charts.wide{grid-template-columns:1fr}
figure{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px;margin:0;min-width:0}
figure>svg{display:block;margin:8px 0 4px;overflow:visible}
.charts>figure:has(svg[role=img] rect:nth-of-type(40)){grid-column:1/-1}
figure text{fill:var(--soft);font-size:11px;text-anchor:middle}
.bars{list-style:none;margin:8px 0 4px;padding:0;font-size:12.5px}
.bars li{display:grid;grid-template-columns:minmax(0,1fr) auto;gap:0 12px;margin:0 0 6px}
.bars code{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;background:none;padding:0;font-size:12px}
.bars span{font-variant-numeric:tabular-nums}
.bars svg{grid-column:1/-1}
figure text.value{fill:var(--text)}
.axis{stroke:var(--line)}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:2px 0 0;color:var(--soft);font-size:12.5px;
overflow-wrap:anywhere}
.c-live{fill:var(--live)}.c-moving{fill:var(--moving)}.c-settling{fill:var(--settling)}.c-stale{fill:var(--stale)}
.c-other{fill:var(--other)}.c-other2{fill:var(--other2)}.c-bad{fill:var(--bad)}
summary{color:var(--soft);font-size:12.5px;cursor:pointer}
.scroll{overflow:auto;max-height:460px;background:var(--card);border:1px solid var(--line);border-radius:10px}
details .scroll{max-height:260px;margin-top:6px}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:7px 12px;vertical-align:top;border-bottom:1px solid var(--line)}
tbody tr:last-child td{border-bottom:0}
th{color:var(--soft);font-weight:600;font-size:12.5px;white-space:nowrap;position:sticky;top:0;background:var(--card);
z-index:1}
td.num,th.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.pill{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:0 9px;font-size:12.5px;
white-space:nowrap}
.pill.failed,.pill.unknown{color:var(--bad);border-color:currentColor}
.pill.over_cap,.pill.doubt{color:var(--warn);border-color:currentColor}
.pill.deleted{color:var(--good);border-color:currentColor}
td:first-child{min-width:200px}
figure td:first-child{min-width:90px}
td:last-child:not(:first-child){min-width:170px}
td.num:last-child:not(:first-child){min-width:0}
a{color:var(--dry);overflow-wrap:anywhere}
button,input,select{font:inherit;color:inherit;background:var(--card);border:1px solid var(--soft);border-radius:6px;
padding:5px 10px}
button{cursor:pointer}
button:disabled{opacity:.5;cursor:default}
th button,button.link{border:0;padding:0;background:none;font-weight:inherit;text-align:inherit}
th button:hover,button.link:hover{text-decoration:underline}
th[aria-sort=ascending] button::after{content:" ↑"}
th[aria-sort=descending] button::after{content:" ↓"}
:focus-visible{outline:2px solid var(--dry);outline-offset:2px}
.controls{display:flex;flex-wrap:wrap;gap:10px;margin:8px 0}
.controls label{display:flex;flex-direction:column;font-size:12.5px;color:var(--soft);min-width:0;max-width:100%}
.controls input,.controls select{color:var(--text);max-width:100%}
.controls label:first-child{flex:1 1 220px}
.controls select{max-width:230px}
.pager{display:flex;align-items:center;gap:12px;margin:10px 0}
.pager[hidden]{display:none}
#explorer .scroll{max-height:70vh}
#explorer td:first-child{min-width:220px}
#explorer td:nth-child(3){min-width:150px}
#explorer td:nth-child(4){min-width:110px}
time{white-space:nowrap}
header time{white-space:normal}
@media (max-width:600px){main{padding:18px 12px 40px}th,td{padding:6px 8px}.controls label{flex:1 1 100%}
.controls select{max-width:100%}}
@media print{body{background:#fff}main{max-width:none;padding:0}.card,figure,tr{break-inside:avoid}
.scroll,details .scroll,#explorer .scroll{max-height:none;overflow:visible}th{position:static}
.controls,.pager,details{display:none}h2{break-after:avoid}}
"""
