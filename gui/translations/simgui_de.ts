<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
<context>
    <name>orrery</name>
    <message>
        <source>%1 could not be written: %2</source>
        <translation>%1 konnte nicht geschrieben werden: %2</translation>
    </message>
    <message>
        <source>%1: the picture could not be made</source>
        <translation>%1: das Bild konnte nicht erzeugt werden</translation>
    </message>
    <message>
        <source>--view %1: expected two times, the first before the second: --view 10ms,12ms</source>
        <translation>--view %1: erwartet werden zwei Zeiten, die erste vor der zweiten: --view 10ms,12ms</translation>
    </message>
    <message>
        <source>--size %1: expected a width and a height in pixels: --size 1600x1000</source>
        <translation>--size %1: erwartet werden Breite und Höhe in Bildpunkten: --size 1600x1000</translation>
    </message>
    <message>
        <source>Simulates scenarios, compares training strategies, shows timelines.</source>
        <translation>Simuliert Szenarien, vergleicht Trainingsstrategien, zeigt Zeitachsen.</translation>
    </message>
    <message>
        <source>Scenarios, sweeps and traces.</source>
        <translation>Szenarien, Reihen und Aufzeichnungen.</translation>
    </message>
    <message>
        <source>Prints this text and ends.</source>
        <translation>Gibt diesen Text aus und endet.</translation>
    </message>
    <message>
        <source>Prints the version and ends.</source>
        <translation>Gibt die Version aus und endet.</translation>
    </message>
    <message>
        <source>Show the files above each other, the first as the baseline.</source>
        <translation>Die Dateien übereinander zeigen, die erste als Vergleichsbasis.</translation>
    </message>
    <message>
        <source>The time shown: two times, as 10ms,12ms or in seconds.</source>
        <translation>Die gezeigte Zeit: zwei Zeiten wie 10ms,12ms oder in Sekunden.</translation>
    </message>
    <message>
        <source>Select an op: RANK:OP or RANK:OP@MICROBATCH; #n: the n-th of those alike.</source>
        <translation>Eine Operation auswählen: RANK:OP oder RANK:OP@MICROBATCH; die n-te gleiche: #n.</translation>
    </message>
    <message>
        <source>The view in front: %1.</source>
        <translation>Die Ansicht, die vorn liegt: %1.</translation>
    </message>
    <message>
        <source>Write a picture (.png) of the window once everything is simulated, and quit.</source>
        <translation>Ein Bild (.png) des Fensters schreiben, sobald alles da ist, und enden.</translation>
    </message>
    <message>
        <source>Size of the window.</source>
        <translation>Größe des Fensters.</translation>
    </message>
    <message>
        <source>light, dark or system: as the desktop is.</source>
        <translation>light (hell), dark (dunkel) oder system: wie der Desktop.</translation>
    </message>
    <message>
        <source>Do not restore the last session.</source>
        <translation>Die letzte Sitzung nicht wiederherstellen.</translation>
    </message>
    <message>
        <source>The language: %1; else the desktop&apos;s.</source>
        <translation>Die Sprache: %1; sonst die des Desktops.</translation>
    </message>
    <message>
        <source>--dock %1: there is no such view: try %2</source>
        <translation>--dock %1: diese Ansicht gibt es nicht: möglich sind %2</translation>
    </message>
    <message>
        <source>--theme %1: expected light or dark, or system</source>
        <translation>--theme %1: erwartet wird light, dark oder system</translation>
    </message>
    <message>
        <source>--language %1: there is no such translation: %2</source>
        <translation>--language %1: diese Übersetzung gibt es nicht: %2</translation>
    </message>
    <message>
        <source>--compare needs two files or more</source>
        <translation>--compare braucht mindestens zwei Dateien</translation>
    </message>
    <message>
        <source>--select %1: expected RANK:OP, as 0:l17.qkv</source>
        <translation>--select %1: erwartet wird RANK:OP, etwa 0:l17.qkv</translation>
    </message>
    <message>
        <source>compute</source>
        <translation>Rechnen</translation>
    </message>
    <message>
        <source>recompute</source>
        <translation>Neuberechnung</translation>
    </message>
    <message>
        <source>tensor-parallel wait</source>
        <translation>Warten auf Tensorparallele</translation>
    </message>
    <message>
        <source>context-parallel wait</source>
        <translation>Warten auf Kontextparallele</translation>
    </message>
    <message>
        <source>expert-parallel wait</source>
        <translation>Warten auf Expertenparallele</translation>
    </message>
    <message>
        <source>pipeline transfers</source>
        <translation>Pipeline-Übertragungen</translation>
    </message>
    <message>
        <source>data-parallel wait</source>
        <translation>Warten auf Datenparallele</translation>
    </message>
    <message>
        <source>optimizer</source>
        <translation>Optimierer</translation>
    </message>
    <message>
        <source>offload</source>
        <translation>Auslagern</translation>
    </message>
    <message>
        <source>bubble</source>
        <translation>Blase</translation>
    </message>
    <message>
        <source>wait for slower devices</source>
        <translation>Warten auf langsamere Geräte</translation>
    </message>
    <message>
        <source>other (copies, host)</source>
        <translation>Übriges (Kopien, Host)</translation>
    </message>
    <message>
        <source>rank %1 predicted</source>
        <translation>Rang %1 vorhergesagt</translation>
    </message>
    <message>
        <source>rank %1 measured</source>
        <translation>Rang %1 gemessen</translation>
    </message>
    <message>
        <source>%1 is posted, no data yet</source>
        <translation>%1 ist angemeldet, noch keine Daten</translation>
    </message>
    <message>
        <source>slice</source>
        <translation>Abschnitt</translation>
    </message>
    <message>
        <source>kind</source>
        <translation>Art</translation>
    </message>
    <message>
        <source>takes</source>
        <translation>dauert</translation>
    </message>
    <message>
        <source>begins</source>
        <translation>beginnt</translation>
    </message>
    <message>
        <source>ends</source>
        <translation>endet</translation>
    </message>
    <message>
        <source>%1, shown for %2 ranks that do the same</source>
        <translation>%1, für %2 Ränge, die dasselbe tun</translation>
    </message>
    <message>
        <source>rank</source>
        <translation>Rang</translation>
    </message>
    <message>
        <source>stage</source>
        <translation>Stufe</translation>
    </message>
    <message>
        <source>queue</source>
        <translation>Warteschlange</translation>
    </message>
    <message>
        <source>microbatch</source>
        <translation>Mikrobatch</translation>
    </message>
    <message>
        <source>cause</source>
        <translation>Ursache</translation>
    </message>
    <message>
        <source>late rank</source>
        <translation>verspäteter Rang</translation>
    </message>
    <message>
        <source>rank %1</source>
        <translation>Rang %1</translation>
    </message>
    <message>
        <source>op</source>
        <translation>Operation</translation>
    </message>
    <message>
        <source>phase</source>
        <translation>Phase</translation>
    </message>
    <message>
        <source>layer</source>
        <translation>Schicht</translation>
    </message>
    <message>
        <source>work</source>
        <translation>Arbeit</translation>
    </message>
    <message>
        <source>rate</source>
        <translation>Rate</translation>
    </message>
    <message>
        <source>moves</source>
        <translation>bewegt</translation>
    </message>
    <message>
        <source>%1 in %2 calls</source>
        <translation>%1 in %2 Aufrufen</translation>
    </message>
    <message>
        <source>bandwidth</source>
        <translation>Bandbreite</translation>
    </message>
    <message>
        <source>forward</source>
        <translation>vorwärts</translation>
    </message>
    <message>
        <source>backward, inputs</source>
        <translation>rückwärts, Eingaben</translation>
    </message>
    <message>
        <source>backward, weights</source>
        <translation>rückwärts, Gewichte</translation>
    </message>
    <message>
        <source>other compute</source>
        <translation>übriges Rechnen</translation>
    </message>
    <message>
        <source>collective</source>
        <translation>Kollektiv</translation>
    </message>
    <message>
        <source>point to point</source>
        <translation>Punkt zu Punkt</translation>
    </message>
    <message>
        <source>copy</source>
        <translation>Kopie</translation>
    </message>
    <message>
        <source>posted, no data yet</source>
        <translation>angemeldet, noch keine Daten</translation>
    </message>
    <message>
        <source>waiting</source>
        <translation>Warten</translation>
    </message>
    <message>
        <source>waits</source>
        <translation>wartet</translation>
    </message>
    <message>
        <source>bubble: the pipeline warms up</source>
        <translation>Blase: die Pipeline füllt sich</translation>
    </message>
    <message>
        <source>bubble: the pipeline drains</source>
        <translation>Blase: die Pipeline leert sich</translation>
    </message>
    <message>
        <source>waits for a receive</source>
        <translation>wartet auf einen Empfang</translation>
    </message>
    <message>
        <source>waits for a collective</source>
        <translation>wartet auf ein Kollektiv</translation>
    </message>
    <message>
        <source>waits for the host</source>
        <translation>wartet auf den Host</translation>
    </message>
    <message>
        <source>waits for memory</source>
        <translation>wartet auf Speicher</translation>
    </message>
    <message>
        <source>waits for another queue</source>
        <translation>wartet auf eine andere Warteschlange</translation>
    </message>
    <message>
        <source>parameters</source>
        <translation>Parameter</translation>
    </message>
    <message>
        <source>gradients</source>
        <translation>Gradienten</translation>
    </message>
    <message>
        <source>optimizer states</source>
        <translation>Optimiererzustände</translation>
    </message>
    <message>
        <source>activations</source>
        <translation>Aktivierungen</translation>
    </message>
    <message>
        <source>communication</source>
        <translation>Kommunikation</translation>
    </message>
    <message>
        <source>workspace</source>
        <translation>Arbeitsspeicher der Kerne</translation>
    </message>
    <message>
        <source>reserved by the runtime</source>
        <translation>von der Laufzeit reserviert</translation>
    </message>
    <message>
        <source>%1 (microbatch %2)</source>
        <translation>%1 (Mikrobatch %2)</translation>
    </message>
    <message>
        <source>rank %1 (of %2 alike)</source>
        <translation>Rang %1 (von %2 gleichen)</translation>
    </message>
    <message>
        <source>pipeline stage</source>
        <translation>Pipelinestufe</translation>
    </message>
    <message>
        <source>data rank</source>
        <translation>Datenrang</translation>
    </message>
    <message>
        <source>tensor rank</source>
        <translation>Tensorrang</translation>
    </message>
    <message>
        <source>context rank</source>
        <translation>Kontextrang</translation>
    </message>
    <message>
        <source>expert rank</source>
        <translation>Expertenrang</translation>
    </message>
    <message>
        <source>reading</source>
        <translation>liest</translation>
    </message>
    <message>
        <source>planning</source>
        <translation>plant</translation>
    </message>
    <message>
        <source>simulating</source>
        <translation>simuliert</translation>
    </message>
    <message>
        <source>preparing the timeline</source>
        <translation>bereitet die Zeitachse vor</translation>
    </message>
    <message>
        <source>node %1</source>
        <translation>Knoten %1</translation>
    </message>
    <message>
        <source>data %1</source>
        <translation>Daten %1</translation>
    </message>
    <message>
        <source>tensor</source>
        <translation>Tensor</translation>
    </message>
    <message>
        <source>T</source>
        <translation>T</translation>
    </message>
    <message>
        <source>context</source>
        <translation>Kontext</translation>
    </message>
    <message>
        <source>C</source>
        <translation>K</translation>
    </message>
    <message>
        <source>data</source>
        <translation>Daten</translation>
    </message>
    <message>
        <source>D</source>
        <translation>D</translation>
    </message>
    <message>
        <source>experts %1</source>
        <translation>Experten %1</translation>
    </message>
    <message>
        <source>E %1</source>
        <translation>E %1</translation>
    </message>
    <message>
        <source>&lt;b&gt;rank %1&lt;/b&gt;: node %2, device %3&lt;br&gt;stage %4 of %5, %6</source>
        <translation>&lt;b&gt;Rang %1&lt;/b&gt;: Knoten %2, Gerät %3&lt;br&gt;Stufe %4 von %5, %6</translation>
    </message>
    <message>
        <source>, embedding</source>
        <translation>, Einbettung</translation>
    </message>
    <message>
        <source>, loss</source>
        <translation>, Verlust</translation>
    </message>
    <message>
        <source>weights</source>
        <translation>Gewichte</translation>
    </message>
    <message>
        <source>experts&apos; weights</source>
        <translation>Gewichte der Experten</translation>
    </message>
    <message>
        <source>data: part %1 of %2, %3 microbatches of %4 sequences</source>
        <translation>Daten: Teil %1 von %2, %3 Mikrobatches zu %4 Sequenzen</translation>
    </message>
    <message>
        <source>, part %1 of %2 of each sequence</source>
        <translation>, Teil %1 von %2 jeder Sequenz</translation>
    </message>
    <message>
        <source>&lt;br&gt;experts %1 to %2 of %3 in each layer</source>
        <translation>&lt;br&gt;Experten %1 bis %2 von %3 in jeder Schicht</translation>
    </message>
    <message>
        <source>%1: the view has no table</source>
        <translation>%1: die Ansicht hat keine Tabelle</translation>
    </message>
    <message>
        <source>%1 %2 %</source>
        <translation>%1 %2 %</translation>
    </message>
    <message>
        <source>Data parallel</source>
        <translation>Datenparallel</translation>
    </message>
    <message>
        <source>Every device holds the whole model; gradients are summed</source>
        <translation>Jedes Gerät hält alles; Gradienten werden summiert</translation>
    </message>
    <message>
        <source>Fully sharded (FSDP)</source>
        <translation>Ganz verteilt (FSDP)</translation>
    </message>
    <message>
        <source>Parameters, gradients and optimizer states in shards, gathered layer by layer</source>
        <translation>Parameter, Gradienten und Optimiererzustände in Teilen, Schicht um Schicht gesammelt</translation>
    </message>
    <message>
        <source>Data parallel, ZeRO 1</source>
        <translation>Datenparallel, ZeRO 1</translation>
    </message>
    <message>
        <source>Optimizer states in shards</source>
        <translation>Optimiererzustände in Teilen</translation>
    </message>
    <message>
        <source>Tensor parallel in a node</source>
        <translation>Tensorparallel im Knoten</translation>
    </message>
    <message>
        <source>Layers split over the devices of a node, replicas between nodes</source>
        <translation>Schichten über die Geräte eines Knotens geteilt, zwischen Knoten Kopien</translation>
    </message>
    <message>
        <source>Tensor and pipeline, 1F1B</source>
        <translation>Tensor und Pipeline, 1F1B</translation>
    </message>
    <message>
        <source>Layers split in a node, two stages between nodes</source>
        <translation>Schichten im Knoten geteilt, zwei Stufen zwischen Knoten</translation>
    </message>
    <message>
        <source>Tensor and pipeline, interleaved</source>
        <translation>Tensor und Pipeline, verschränkt</translation>
    </message>
    <message>
        <source>Two chunks for each stage: a smaller bubble, more transfers</source>
        <translation>Zwei Teile je Stufe: kleinere Blase, mehr Übertragungen</translation>
    </message>
    <message>
        <source>Tensor and pipeline, zero bubble</source>
        <translation>Tensor und Pipeline, ohne Blase</translation>
    </message>
    <message>
        <source>Weight gradients fill the bubble</source>
        <translation>Gewichtsgradienten füllen die Blase</translation>
    </message>
    <message>
        <source>Long sequences: context parallel</source>
        <translation>Lange Sequenzen: kontextparallel</translation>
    </message>
    <message>
        <source>Each sequence split over two devices</source>
        <translation>Jede Sequenz über zwei Geräte</translation>
    </message>
    <message>
        <source>Recompute nothing</source>
        <translation>Nichts neu berechnen</translation>
    </message>
    <message>
        <source>All activations are kept</source>
        <translation>Alle Aktivierungen werden behalten</translation>
    </message>
    <message>
        <source>Recompute attention</source>
        <translation>Attention neu berechnen</translation>
    </message>
    <message>
        <source>Attention alone: its activations are large, and cheap to compute again</source>
        <translation>Nur Attention: ihre Aktivierungen sind groß und billig neu zu berechnen</translation>
    </message>
    <message>
        <source>Recompute whole layers</source>
        <translation>Ganze Schichten neu berechnen</translation>
    </message>
    <message>
        <source>Only the inputs of layers are kept</source>
        <translation>Nur die Eingaben der Schichten werden behalten</translation>
    </message>
    <message>
        <source>%1 layers</source>
        <translation>%1 Schichten</translation>
    </message>
    <message>
        <source>stage %1: %2</source>
        <translation>Stufe %1: %2</translation>
    </message>
    <message>
        <source>tensor shard %1</source>
        <translation>Tensorteil %1</translation>
    </message>
    <message>
        <source>context shard %1</source>
        <translation>Kontextteil %1</translation>
    </message>
    <message>
        <source>experts&apos; group %1</source>
        <translation>Expertengruppe %1</translation>
    </message>
    <message>
        <source>no experts</source>
        <translation>keine Experten</translation>
    </message>
    <message>
        <source>version n: none of the updates is missing</source>
        <translation>Version n: keine Aktualisierung fehlt</translation>
    </message>
    <message>
        <source>version n - %1: its gradient is added to version n</source>
        <translation>Version n - %1: ihr Gradient kommt zu Version n</translation>
    </message>
    <message>
        <source>staleness</source>
        <translation>Alter der Gewichte</translation>
    </message>
    <message>
        <source>gradients: %1 updates in the mean, %2 at most</source>
        <translation>Gradienten: %1 Aktualisierungen im Mittel, höchstens %2</translation>
    </message>
    <message>
        <source>parameters that come: %1 steps in the mean, %2 at most</source>
        <translation>Parameter, die kommen: %1 Schritte im Mittel, höchstens %2</translation>
    </message>
    <message>
        <source>versions in use</source>
        <translation>Versionen in Gebrauch</translation>
    </message>
    <message>
        <source>up to %1</source>
        <translation>bis zu %1</translation>
    </message>
    <message>
        <source>sent in a step</source>
        <translation>in einem Schritt gesendet</translation>
    </message>
    <message>
        <source>%1 by all workers</source>
        <translation>%1 von allen Arbeitern</translation>
    </message>
    <message>
        <source>shown here</source>
        <translation>hier gezeigt</translation>
    </message>
    <message>
        <source>one worker&apos;s step; the view Workers has what workers send and wait for</source>
        <translation>der Schritt eines Arbeiters; was Arbeiter senden und worauf sie warten, zeigt die Ansicht Arbeiter</translation>
    </message>
    <message>
        <source>workers step</source>
        <translation>Arbeiter rechnen</translation>
    </message>
    <message>
        <source>%1 % of the time</source>
        <translation>%1 % der Zeit</translation>
    </message>
    <message>
        <source>a meeting</source>
        <translation>ein Treffen</translation>
    </message>
    <message>
        <source>every %1 steps, adds %2</source>
        <translation>alle %1 Schritte, kostet %2</translation>
    </message>
    <message>
        <source>leaves nodes in a step</source>
        <translation>verlässt Knoten in einem Schritt</translation>
    </message>
    <message>
        <source>between server steps</source>
        <translation>zwischen Schritten des Servers</translation>
    </message>
    <message>
        <source>a round</source>
        <translation>eine Runde</translation>
    </message>
    <message>
        <source>%1 in the mean (p10 %2, p90 %3)</source>
        <translation>%1 im Mittel (p10 %2, p90 %3)</translation>
    </message>
    <message>
        <source>updates: %1 server steps in the mean, %2 at most</source>
        <translation>Beiträge: %1 Schritte des Servers im Mittel, höchstens %2</translation>
    </message>
    <message>
        <source>clients send</source>
        <translation>Klienten übertragen</translation>
    </message>
    <message>
        <source>%1 down, %2 up each time</source>
        <translation>jedes Mal %1 hinunter, %2 hinauf</translation>
    </message>
    <message>
        <source>training in vain</source>
        <translation>umsonst trainiert</translation>
    </message>
    <message>
        <source>versions held</source>
        <translation>gehaltene Versionen</translation>
    </message>
    <message>
        <source>up to %1 of the weights on a stage</source>
        <translation>bis zu %1 der Gewichte auf einer Stufe</translation>
    </message>
    <message>
        <source>device of stage %1</source>
        <translation>Gerät der Stufe %1</translation>
    </message>
    <message>
        <source>memory of a node that serves</source>
        <translation>Speicher eines Knotens mit Server</translation>
    </message>
    <message>
        <source>memory of the fullest node</source>
        <translation>Speicher des vollsten Knotens</translation>
    </message>
    <message>
        <source>NVMe of the fullest node</source>
        <translation>NVMe des vollsten Knotens</translation>
    </message>
    <message>
        <source>computes</source>
        <translation>rechnet</translation>
    </message>
    <message>
        <source>fetches parameters</source>
        <translation>holt Parameter</translation>
    </message>
    <message>
        <source>sends</source>
        <translation>sendet</translation>
    </message>
    <message>
        <source>server: update or round</source>
        <translation>Server: Aktualisierung oder Runde</translation>
    </message>
    <message>
        <source>averages</source>
        <translation>mittelt</translation>
    </message>
    <message>
        <source>trains in vain</source>
        <translation>trainiert umsonst</translation>
    </message>
    <message>
        <source>uses weights of version %1</source>
        <translation>nutzt Gewichte der Version %1</translation>
    </message>
    <message>
        <source>uses weights of version n: %1, to which its gradient is added</source>
        <translation>nutzt Gewichte der Version n: %1, zu der sein Gradient kommt</translation>
    </message>
    <message>
        <source>uses weights of version n - %1: %2; its gradient goes into %3</source>
        <translation>nutzt Gewichte der Version n - %1: %2; sein Gradient geht in %3</translation>
    </message>
    <message>
        <source>step %1</source>
        <translation>Schritt %1</translation>
    </message>
    <message>
        <source>pushes the gradient of step %1</source>
        <translation>sendet den Gradienten von Schritt %1</translation>
    </message>
    <message>
        <source>pulls the parameters</source>
        <translation>holt die Parameter</translation>
    </message>
    <message>
        <source>version %1</source>
        <translation>Version %1</translation>
    </message>
    <message>
        <source>make version %1</source>
        <translation>bilden Version %1</translation>
    </message>
    <message>
        <source>with the gradients of all workers</source>
        <translation>mit den Gradienten aller Arbeiter</translation>
    </message>
    <message>
        <source>with the gradient of worker %1</source>
        <translation>mit dem Gradienten von Arbeiter %1</translation>
    </message>
    <message>
        <source>parameters of step %1 to worker %2</source>
        <translation>Parameter von Schritt %1 an Arbeiter %2</translation>
    </message>
    <message>
        <source>steps until they are averaged there: %1</source>
        <translation>Schritte, bis sie dort gemittelt werden: %1</translation>
    </message>
    <message>
        <source>averages with what came</source>
        <translation>mittelt mit dem, was kam</translation>
    </message>
    <message>
        <source>waits for the servers</source>
        <translation>wartet auf die Server</translation>
    </message>
    <message>
        <source>waits for its peers</source>
        <translation>wartet auf seine Partner</translation>
    </message>
    <message>
        <source>servers</source>
        <translation>Server</translation>
    </message>
    <message>
        <source>worker %1</source>
        <translation>Arbeiter %1</translation>
    </message>
    <message>
        <source>Gradients are %1 updates old in the mean, %2 at most; up to %3 versions of the parameters are in use; servers update %4 % of the time.</source>
        <translation>Gradienten sind im Mittel %1 Aktualisierungen alt, höchstens %2; bis zu %3 Versionen der Parameter sind in Gebrauch; Server aktualisieren %4 % der Zeit.</translation>
    </message>
    <message>
        <source>Parameters that come are %1 steps old in the mean, %2 at most; a worker averages once in %3 steps.</source>
        <translation>Parameter, die kommen, sind im Mittel %1 Schritte alt, höchstens %2; ein Arbeiter mittelt einmal in %3 Schritten.</translation>
    </message>
    <message>
        <source>A step takes %1, of which a worker waits %2; all send %3 in it.</source>
        <translation>Ein Schritt dauert %1, davon wartet ein Arbeiter %2; alle senden darin %3.</translation>
    </message>
    <message>
        <source>Shown: %1 of %2 workers.</source>
        <translation>Gezeigt: %1 von %2 Arbeitern.</translation>
    </message>
    <message>
        <source>%1 updates counted</source>
        <translation>%1 Beiträge gezählt</translation>
    </message>
    <message>
        <source>%1 of %2 asked are counted</source>
        <translation>%1 von %2 gefragten zählen</translation>
    </message>
    <message>
        <source>%1 too late</source>
        <translation>%1 zu spät</translation>
    </message>
    <message>
        <source>%1 gave up</source>
        <translation>%1 gaben auf</translation>
    </message>
    <message>
        <source>counted; steps of the server since it began: %1</source>
        <translation>gezählt; Schritte des Servers seit seinem Beginn: %1</translation>
    </message>
    <message>
        <source>counted</source>
        <translation>gezählt</translation>
    </message>
    <message>
        <source>too late: the round ended without it</source>
        <translation>zu spät: die Runde endete ohne ihn</translation>
    </message>
    <message>
        <source>dropped out</source>
        <translation>ausgefallen</translation>
    </message>
    <message>
        <source>still at work</source>
        <translation>noch bei der Arbeit</translation>
    </message>
    <message>
        <source>client %1 downloads the model</source>
        <translation>Klient %1 lädt das Modell</translation>
    </message>
    <message>
        <source>client %1 trains</source>
        <translation>Klient %1 trainiert</translation>
    </message>
    <message>
        <source>client %1 uploads its update</source>
        <translation>Klient %1 sendet seinen Beitrag</translation>
    </message>
    <message>
        <source>client %1 waits for the next round</source>
        <translation>Klient %1 wartet auf die nächste Runde</translation>
    </message>
    <message>
        <source>server</source>
        <translation>Server</translation>
    </message>
    <message>
        <source>at work: %1</source>
        <translation>bei der Arbeit: %1</translation>
    </message>
    <message>
        <source>answer %1</source>
        <translation>Antwort %1</translation>
    </message>
    <message>
        <source>step %1 of the server</source>
        <translation>Schritt %1 des Servers</translation>
    </message>
    <message>
        <source>round %1</source>
        <translation>Runde %1</translation>
    </message>
    <message>
        <source>%1 (p10 %2, p90 %3)</source>
        <translation>%1 (p10 %2, p90 %3)</translation>
    </message>
    <message>
        <source>%L1 clients, %2 at work at one time: between steps of the server %3; updates are %4 steps old in the mean, %5 at most.</source>
        <translation>%L1 Klienten, %2 zugleich bei der Arbeit: zwischen Schritten des Servers %3; Beiträge sind im Mittel %4 Schritte alt, höchstens %5.</translation>
    </message>
    <message>
        <source>%L1 clients, of which %2 are asked a round: a round takes %3; %4 answers count.</source>
        <translation>%L1 Klienten, von denen %2 je Runde gefragt werden: eine Runde dauert %3; %4 Antworten zählen.</translation>
    </message>
    <message>
        <source>%1 % of the training is in vain; %2 go down and %3 up each time.</source>
        <translation>%1 % des Trainings sind umsonst; jedes Mal gehen %2 hinunter und %3 hinauf.</translation>
    </message>
    <message>
        <source>In %1 % of the rounds nobody answers in time.</source>
        <translation>In %1 % der Runden antwortet niemand rechtzeitig.</translation>
    </message>
    <message>
        <source>The target takes %1 steps of the server: %2.</source>
        <translation>Bis zum Ziel sind es %1 Schritte des Servers: %2.</translation>
    </message>
    <message>
        <source>The target takes %1 rounds: %2.</source>
        <translation>Bis zum Ziel sind es %1 Runden: %2.</translation>
    </message>
    <message>
        <source>The rounds are not simulated: a client&apos;s step does not fit in memory.</source>
        <translation>Die Runden werden nicht simuliert: Der Schritt eines Klienten passt nicht in den Speicher.</translation>
    </message>
    <message>
        <source>The ranks of this run are in the timeline; a slice chosen there says which version of the weights it uses.</source>
        <translation>Die Ränge dieses Laufs stehen in der Zeitachse; ein dort gewählter Abschnitt sagt, welche Version der Gewichte er nutzt.</translation>
    </message>
    <message>
        <source>The workers of this run meet every %1 steps: the timeline shows these steps and the meeting. Workers that exchange with servers or peers at times of their own, and clients of federated rounds, are shown here.</source>
        <translation>Die Arbeiter dieses Laufs treffen sich alle %1 Schritte: die Zeitachse zeigt diese Schritte und das Treffen. Hier stehen Arbeiter, die sich zu eigenen Zeiten mit Servern oder Nachbarn austauschen, und Klienten föderierter Runden.</translation>
    </message>
    <message>
        <source>Workers that exchange with servers or peers at times of their own, and clients of federated rounds, are shown here. This run has none.</source>
        <translation>Hier stehen Arbeiter, die sich zu eigenen Zeiten mit Servern oder Nachbarn austauschen, und Klienten föderierter Runden. Dieser Lauf hat keine.</translation>
    </message>
    <message>
        <source>no layers</source>
        <translation>keine Schichten</translation>
    </message>
    <message>
        <source>layer %1</source>
        <translation>Schicht %1</translation>
    </message>
    <message>
        <source>layers %1</source>
        <translation>Schichten %1</translation>
    </message>
    <message>
        <source>L %1</source>
        <translation>S %1</translation>
    </message>
    <message>
        <source>expert</source>
        <translation>Experten</translation>
    </message>
    <message>
        <source>replica</source>
        <translation>Kopien</translation>
    </message>
    <message>
        <source>worker</source>
        <translation>Arbeiter</translation>
    </message>
    <message>
        <source>pipeline</source>
        <translation>Pipeline</translation>
    </message>
    <message>
        <source>split over %1</source>
        <translation>geteilt über %1</translation>
    </message>
    <message>
        <source>whole on every rank</source>
        <translation>ganz auf jedem Rang</translation>
    </message>
</context>
<context>
    <name>orrery::AliveModel</name>
    <message>
        <source>Alive at the peak</source>
        <translation>Am Höchststand belegt</translation>
    </message>
    <message>
        <source>Together</source>
        <translation>Zusammen</translation>
    </message>
    <message>
        <source>Count</source>
        <translation>Anzahl</translation>
    </message>
    <message>
        <source>Source of the figure</source>
        <translation>Herkunft der Zahl</translation>
    </message>
    <message>
        <source>bytes</source>
        <translation>Bytes</translation>
    </message>
</context>
<context>
    <name>orrery::AreaModel</name>
    <message>
        <source>Kind</source>
        <translation>Art</translation>
    </message>
    <message>
        <source>Op or cause</source>
        <translation>Operation oder Ursache</translation>
    </message>
    <message>
        <source>Slices</source>
        <translation>Abschnitte</translation>
    </message>
    <message>
        <source>Time</source>
        <translation>Zeit</translation>
    </message>
    <message>
        <source>Share</source>
        <translation>Anteil</translation>
    </message>
    <message>
        <source>Exposed</source>
        <translation>Unverdeckt</translation>
    </message>
    <message>
        <source>Critical path</source>
        <translation>Kritischer Pfad</translation>
    </message>
    <message>
        <source>Sum</source>
        <translation>Summe</translation>
    </message>
    <message>
        <source>Union of the slices&apos; intervals in a rank, mean over ranks</source>
        <translation>Vereinigung der Zeiten der Abschnitte eines Rangs, Mittel über Ränge</translation>
    </message>
    <message>
        <source>Share of the area&apos;s length</source>
        <translation>Von der Länge der Fläche</translation>
    </message>
    <message>
        <source>The part of the time in which the rank computed nothing, mean over ranks</source>
        <translation>Der Teil der Zeit, in dem der Rang nichts rechnete, Mittel über Ränge</translation>
    </message>
    <message>
        <source>Time on the critical path, all ranks</source>
        <translation>Zeit auf dem kritischen Pfad, alle Ränge</translation>
    </message>
    <message>
        <source>Durations added up; more than wall time where slices overlap</source>
        <translation>Summe der Dauern; mehr als die vergangene Zeit, wo Abschnitte sich überlappen</translation>
    </message>
</context>
<context>
    <name>orrery::BarsPlot</name>
    <message>
        <source>Breakdown bars</source>
        <translation>Balken der Aufteilung</translation>
    </message>
    <message>
        <source>Nothing simulated yet: open or edit a scenario</source>
        <translation>Noch nichts simuliert: ein Szenario öffnen oder bearbeiten</translation>
    </message>
    <message>
        <source>Next bar</source>
        <translation>Nächster Balken</translation>
    </message>
    <message>
        <source>Bar before</source>
        <translation>Balken davor</translation>
    </message>
    <message>
        <source>Show the bar&apos;s run or rank</source>
        <translation>Lauf oder Rang des Balkens zeigen</translation>
    </message>
    <message>
        <source>Chooses the bar and says what it is made of</source>
        <translation>Wählt den Balken und sagt, woraus er besteht</translation>
    </message>
    <message>
        <source>Shows it in all views</source>
        <translation>Zeigt ihn in allen Ansichten</translation>
    </message>
</context>
<context>
    <name>orrery::BreakdownView</name>
    <message>
        <source>stage %1</source>
        <translation>Stufe %1</translation>
    </message>
    <message numerus="yes">
        <source>rank %1 and %n like it</source>
        <translation>
            <numerusform>Rang %1 und %n gleicher</numerusform>
            <numerusform>Rang %1 und %n gleiche</numerusform>
        </translation>
    </message>
    <message>
        <source>rank %1</source>
        <translation>Rang %1</translation>
    </message>
    <message>
        <source>One bar for each strategy</source>
        <translation>Ein Balken je Strategie</translation>
    </message>
    <message>
        <source>One bar for each stage of the current run</source>
        <translation>Ein Balken je Stufe des aktuellen Laufs</translation>
    </message>
    <message>
        <source>One bar for each rank of the current run</source>
        <translation>Ein Balken je Rang des aktuellen Laufs</translation>
    </message>
    <message>
        <source>Meaning of a bar</source>
        <translation>Was ein Balken ist</translation>
    </message>
    <message>
        <source>bar</source>
        <translation>Balken</translation>
    </message>
    <message>
        <source>%1 (s)</source>
        <translation>%1 (s)</translation>
    </message>
    <message>
        <source>Chooses what each bar stands for</source>
        <translation>Wählt, wofür jeder Balken steht</translation>
    </message>
</context>
<context>
    <name>orrery::ChangesModel</name>
    <message>
        <source>left out</source>
        <translation>ausgelassen</translation>
    </message>
    <message>
        <source>Field</source>
        <translation>Feld</translation>
    </message>
    <message>
        <source>Baseline</source>
        <translation>Vergleichsbasis</translation>
    </message>
    <message>
        <source>This run</source>
        <translation>Dieser Lauf</translation>
    </message>
</context>
<context>
    <name>orrery::ClusterPlot</name>
    <message>
        <source>Cluster with the use of its links; the table beside it holds the same figures</source>
        <translation>Cluster mit der Nutzung seiner Verbindungen; die Tabelle daneben sagt dasselbe</translation>
    </message>
    <message numerus="yes">
        <source>%n node(s) shown</source>
        <translation>
            <numerusform>%n Knoten gezeigt</numerusform>
            <numerusform>%n Knoten gezeigt</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>; %n more not drawn</source>
        <translation>
            <numerusform>; %n weiterer nicht gezeichnet</numerusform>
            <numerusform>; %n weitere nicht gezeichnet</numerusform>
        </translation>
    </message>
    <message>
        <source>down</source>
        <translation>ausgefallen</translation>
    </message>
    <message>
        <source>carries nothing, or another link of the trace stands for it</source>
        <translation>trägt nichts, oder eine andere Verbindung der Aufzeichnung steht für sie</translation>
    </message>
    <message>
        <source>%1, taken from a link that carries the same</source>
        <translation>%1, von einer Verbindung, die dasselbe trägt</translation>
    </message>
    <message>
        <source>%1 to %2: %3</source>
        <translation>%1 bis %2: %3</translation>
    </message>
    <message>
        <source>100 % of capacity</source>
        <translation>100 % der Kapazität</translation>
    </message>
</context>
<context>
    <name>orrery::CommandPalette</name>
    <message>
        <source>Commands</source>
        <translation>Befehle</translation>
    </message>
    <message>
        <source>Type a command</source>
        <translation>Befehl eintippen</translation>
    </message>
    <message>
        <source>Command</source>
        <translation>Befehl</translation>
    </message>
    <message>
        <source>Commands that match</source>
        <translation>Passende Befehle</translation>
    </message>
</context>
<context>
    <name>orrery::CompareView</name>
    <message>
        <source>Compare</source>
        <translation>Vergleich</translation>
    </message>
    <message>
        <source>Above each other</source>
        <translation>Übereinander</translation>
    </message>
    <message>
        <source>Predicted over measured</source>
        <translation>Vorhersage über Messung</translation>
    </message>
    <message>
        <source>Align by time</source>
        <translation>Nach der Zeit ausrichten</translation>
    </message>
    <message>
        <source>Align by step</source>
        <translation>Nach dem Schritt ausrichten</translation>
    </message>
    <message>
        <source>Chooses how the times of one run are laid beside another&apos;s</source>
        <translation>Wählt, wie die Zeiten eines Laufs neben die eines anderen gelegt werden</translation>
    </message>
    <message>
        <source>Shows runs above each other, and what differs</source>
        <translation>Zeigt Läufe übereinander und was sich unterscheidet</translation>
    </message>
    <message>
        <source>Shows a prediction over the measurement of the same plan</source>
        <translation>Zeigt eine Vorhersage über der Messung desselben Plans</translation>
    </message>
</context>
<context>
    <name>orrery::CourseModel</name>
    <message>
        <source>Who</source>
        <translation>Wer</translation>
    </message>
    <message>
        <source>What</source>
        <translation>Was</translation>
    </message>
    <message>
        <source>Of it</source>
        <translation>Dazu</translation>
    </message>
    <message>
        <source>Begins</source>
        <translation>Beginnt</translation>
    </message>
    <message>
        <source>Takes</source>
        <translation>Dauert</translation>
    </message>
</context>
<context>
    <name>orrery::CoursePlot</name>
    <message>
        <source>Workers over time</source>
        <translation>Arbeiter über der Zeit</translation>
    </message>
    <message>
        <source>Zoom in</source>
        <translation>Vergrößern</translation>
    </message>
    <message>
        <source>Zooms in the middle</source>
        <translation>Zoomt in der Mitte</translation>
    </message>
    <message>
        <source>Zoom out</source>
        <translation>Verkleinern</translation>
    </message>
    <message>
        <source>Zoom at the pointer</source>
        <translation>Am Zeiger zoomen</translation>
    </message>
    <message>
        <source>Ctrl+wheel</source>
        <translation>Strg+Rad</translation>
    </message>
    <message>
        <source>Earlier</source>
        <translation>Früher</translation>
    </message>
    <message>
        <source>Moves a fifth of the time shown to the left</source>
        <translation>Um ein Fünftel der gezeigten Zeit nach links</translation>
    </message>
    <message>
        <source>Later</source>
        <translation>Später</translation>
    </message>
    <message>
        <source>Moves a fifth of the time shown to the right</source>
        <translation>Um ein Fünftel der gezeigten Zeit nach rechts</translation>
    </message>
    <message>
        <source>All of it</source>
        <translation>Alles</translation>
    </message>
    <message>
        <source>Zooms out as far as the rows go</source>
        <translation>Zoomt so weit hinaus, wie die Zeilen reichen</translation>
    </message>
    <message>
        <source>begins at %1, takes %2</source>
        <translation>beginnt bei %1, dauert %2</translation>
    </message>
</context>
<context>
    <name>orrery::DifferenceModel</name>
    <message>
        <source>Union of the slices&apos; intervals in a rank, mean over ranks</source>
        <translation>Vereinigung der Zeiten der Abschnitte eines Rangs, Mittel über Ränge</translation>
    </message>
    <message>
        <source>Kind</source>
        <translation>Art</translation>
    </message>
    <message>
        <source>Op or cause</source>
        <translation>Operation oder Ursache</translation>
    </message>
    <message>
        <source>Change: %1</source>
        <translation>Änderung: %1</translation>
    </message>
</context>
<context>
    <name>orrery::Documents</name>
    <message>
        <source>changes of the last session</source>
        <translation>Änderungen der letzten Sitzung</translation>
    </message>
</context>
<context>
    <name>orrery::ErrorsModel</name>
    <message>
        <source>Op</source>
        <translation>Operation</translation>
    </message>
    <message>
        <source>Slices</source>
        <translation>Abschnitte</translation>
    </message>
    <message>
        <source>Predicted</source>
        <translation>Vorhergesagt</translation>
    </message>
    <message>
        <source>Measured</source>
        <translation>Gemessen</translation>
    </message>
    <message>
        <source>Error</source>
        <translation>Fehler</translation>
    </message>
    <message>
        <source>Mean |error|</source>
        <translation>Mittlerer |Fehler|</translation>
    </message>
    <message>
        <source>Sum of predicted times over sum of measured times, less one</source>
        <translation>Vorhergesagte durch gemessene Zeit, beide summiert, minus eins</translation>
    </message>
    <message>
        <source>Mean over the slices of |predicted / measured - 1|</source>
        <translation>Mittel über die Abschnitte von |vorhergesagt / gemessen - 1|</translation>
    </message>
</context>
<context>
    <name>orrery::ExecutionView</name>
    <message>
        <source>Run on this machine</source>
        <translation>Auf diesem Rechner ausführen</translation>
    </message>
    <message>
        <source>simexec</source>
        <translation>simexec</translation>
    </message>
    <message>
        <source>%1 could not be started: %2</source>
        <translation>%1 konnte nicht gestartet werden: %2</translation>
    </message>
    <message>
        <source>path of simexec</source>
        <translation>Pfad von simexec</translation>
    </message>
    <message>
        <source>Program</source>
        <translation>Programm</translation>
    </message>
    <message>
        <source>Executor</source>
        <translation>Ausführung</translation>
    </message>
    <message>
        <source>Steps</source>
        <translation>Schritte</translation>
    </message>
    <message>
        <source>further arguments, as --text FILE</source>
        <translation>weitere Argumente, etwa --text DATEI</translation>
    </message>
    <message>
        <source>Further arguments</source>
        <translation>Weitere Argumente</translation>
    </message>
    <message>
        <source>Output of simexec</source>
        <translation>Ausgabe von simexec</translation>
    </message>
    <message>
        <source>steps</source>
        <translation>Schritte</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Anhalten</translation>
    </message>
    <message>
        <source>running %1</source>
        <translation>%1 läuft</translation>
    </message>
    <message>
        <source>simexec was not found: build it, or enter its path</source>
        <translation>simexec ist nicht da: bauen oder seinen Pfad nennen</translation>
    </message>
    <message>
        <source>Choose a run with a scenario first</source>
        <translation>Zuerst einen Lauf mit Szenario wählen</translation>
    </message>
    <message>
        <source>Runs the plan of the current scenario on this machine, and lays the trace of its last step over the prediction</source>
        <translation>Führt den Plan des aktuellen Szenarios auf diesem Rechner aus und legt die Aufzeichnung seines letzten Schritts über die Vorhersage</translation>
    </message>
    <message>
        <source>the scenario could not be written to %1</source>
        <translation>das Szenario konnte nicht nach %1 geschrieben werden</translation>
    </message>
    <message>
        <source>stopped</source>
        <translation>angehalten</translation>
    </message>
    <message>
        <source>simexec crashed</source>
        <translation>simexec ist abgestürzt</translation>
    </message>
    <message>
        <source>exit code %1</source>
        <translation>Rückgabewert %1</translation>
    </message>
    <message>
        <source>%1: exit code %2: %3</source>
        <translation>%1: Rückgabewert %2: %3</translation>
    </message>
    <message>
        <source>%1, measured</source>
        <translation>%1, gemessen</translation>
    </message>
    <message>
        <source>as the scenario</source>
        <translation>wie im Szenario</translation>
    </message>
    <message>
        <source>Ranks</source>
        <translation>Ränge</translation>
    </message>
    <message>
        <source>A number of devices other than the scenario&apos;s: it is simulated too, to be compared with the measurement</source>
        <translation>Eine andere Zahl von Geräten als die des Szenarios: auch sie wird simuliert, um sie mit der Messung zu vergleichen</translation>
    </message>
    <message>
        <source>Steps done</source>
        <translation>Erledigte Schritte</translation>
    </message>
    <message>
        <source>step %v of %m</source>
        <translation>Schritt %v von %m</translation>
    </message>
    <message>
        <source>ranks</source>
        <translation>Ränge</translation>
    </message>
    <message numerus="yes">
        <source>%1, %n rank(s)</source>
        <translation>
            <numerusform>%1, %n Rang</numerusform>
            <numerusform>%1, %n Ränge</numerusform>
        </translation>
    </message>
    <message>
        <source>running %1: %2</source>
        <translation>%1 läuft: %2</translation>
    </message>
    <message>
        <source>step</source>
        <translation>Schritt</translation>
    </message>
    <message>
        <source>loss</source>
        <translation>Verlust</translation>
    </message>
    <message>
        <source>time</source>
        <translation>Zeit</translation>
    </message>
    <message numerus="yes">
        <source>%n older measured run(s) deleted: the limit is reached</source>
        <translation>
            <numerusform>%n älterer gemessener Lauf gelöscht: die Grenze ist erreicht</numerusform>
            <numerusform>%n ältere gemessene Läufe gelöscht: die Grenze ist erreicht</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>orrery::FactsModel</name>
    <message>
        <source>Name</source>
        <translation>Name</translation>
    </message>
    <message>
        <source>Value</source>
        <translation>Wert</translation>
    </message>
</context>
<context>
    <name>orrery::FieldDelegate</name>
    <message>
        <source>(default)</source>
        <translation>(Vorgabe)</translation>
    </message>
</context>
<context>
    <name>orrery::FieldsModel</name>
    <message>
        <source>inline</source>
        <translation>eingebettet</translation>
    </message>
    <message>
        <source>

Default: %1</source>
        <translation>

Vorgabe: %1</translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation>%1: %2</translation>
    </message>
    <message>
        <source>Field</source>
        <translation>Feld</translation>
    </message>
    <message>
        <source>Value</source>
        <translation>Wert</translation>
    </message>
    <message>
        <source>Source of the default, or what is wrong</source>
        <translation>Quelle des Vorgabewerts, oder was falsch ist</translation>
    </message>
    <message>
        <source>%1 = %2</source>
        <translation>%1 = %2</translation>
    </message>
    <message>
        <source>%1 left out</source>
        <translation>%1 ausgelassen</translation>
    </message>
    <message numerus="yes">
        <source>%n problem(s) inside</source>
        <translation>
            <numerusform>%n Problem darin</numerusform>
            <numerusform>%n Probleme darin</numerusform>
        </translation>
    </message>
    <message>
        <source>default: %1</source>
        <translation>Vorgabe: %1</translation>
    </message>
    <message>
        <source>

Example: %1</source>
        <translation>

Beispiel: %1</translation>
    </message>
</context>
<context>
    <name>orrery::FoundPoints</name>
    <message>
        <source>the best so far</source>
        <translation>die beste bisher</translation>
    </message>
    <message>
        <source>the best: no other is faster by the model</source>
        <translation>die beste: keine andere ist nach dem Modell schneller</translation>
    </message>
    <message>
        <source>the best that was found; the search was stopped</source>
        <translation>die beste gefundene; die Suche wurde angehalten</translation>
    </message>
    <message>
        <source>the best, refined; of strategies with usual layers none is faster by the model</source>
        <translation>die beste, verfeinert; unter denen mit üblicher Verteilung der Schichten ist nach dem Modell keine schneller</translation>
    </message>
    <message>
        <source>the best</source>
        <translation>die beste</translation>
    </message>
    <message>
        <source>; as fast as the fastest, with more memory to spare</source>
        <translation>; so schnell wie die schnellste, mit mehr freiem Speicher</translation>
    </message>
    <message>
        <source>; what is faster leaves too little memory to be sure of</source>
        <translation>; was schneller ist, lässt zu wenig Speicher, um sicher zu sein</translation>
    </message>
    <message>
        <source>%1 % faster, but some plans that leave so little memory do not fit</source>
        <translation>%1 % schneller, aber manche Pläne, die so wenig Speicher lassen, passen nicht</translation>
    </message>
    <message>
        <source>; fits narrowly</source>
        <translation>; passt knapp</translation>
    </message>
    <message>
        <source>a tie: within %1 %</source>
        <translation>gleichauf: innerhalb von %1 %</translation>
    </message>
    <message>
        <source>%1 % slower</source>
        <translation>%1 % langsamer</translation>
    </message>
    <message>
        <source>%1: bubble %2 % against %3 %</source>
        <translation>%1: Blase %2 % gegen %3 %</translation>
    </message>
    <message>
        <source>%1: %2 % more FLOPs, recomputed</source>
        <translation>%1: %2 % mehr FLOPs, neu berechnet</translation>
    </message>
    <message>
        <source>%1: communication and smaller kernels</source>
        <translation>%1: Kommunikation und kleinere Kernel</translation>
    </message>
</context>
<context>
    <name>orrery::HeatPlot</name>
    <message>
        <source>Map of the sweep; the table beside it holds the same figures</source>
        <translation>Karte der Reihe; die Tabelle daneben sagt dasselbe</translation>
    </message>
    <message>
        <source>none</source>
        <translation>keines</translation>
    </message>
    <message>
        <source>Open a sweep: a scenario with lists under &quot;sweep&quot;</source>
        <translation>Eine Reihe öffnen: ein Szenario mit Listen unter &quot;sweep&quot;</translation>
    </message>
    <message>
        <source>nothing fits</source>
        <translation>nichts passt</translation>
    </message>
    <message>
        <source>Chooses the cell&apos;s best point in the table</source>
        <translation>Wählt den besten Punkt der Zelle in der Tabelle</translation>
    </message>
    <message>
        <source>Cell to the right</source>
        <translation>Zelle rechts</translation>
    </message>
    <message>
        <source>Cell to the left</source>
        <translation>Zelle links</translation>
    </message>
    <message>
        <source>Cell below</source>
        <translation>Zelle darunter</translation>
    </message>
    <message>
        <source>Cell above</source>
        <translation>Zelle darüber</translation>
    </message>
</context>
<context>
    <name>orrery::KeySheet</name>
    <message>
        <source>Keys</source>
        <translation>Tasten</translation>
    </message>
    <message>
        <source>Keys of every command</source>
        <translation>Tasten aller Befehle</translation>
    </message>
</context>
<context>
    <name>orrery::Legend</name>
    <message>
        <source>Legend</source>
        <translation>Legende</translation>
    </message>
</context>
<context>
    <name>orrery::LinksModel</name>
    <message>
        <source>Link</source>
        <translation>Verbindung</translation>
    </message>
    <message>
        <source>Alike</source>
        <translation>Gleiche</translation>
    </message>
    <message>
        <source>Carried in a step</source>
        <translation>Je Schritt übertragen</translation>
    </message>
    <message>
        <source>Capacity</source>
        <translation>Kapazität</translation>
    </message>
    <message>
        <source>Mean use</source>
        <translation>Mittlere Nutzung</translation>
    </message>
    <message>
        <source>Busiest bin</source>
        <translation>Vollster Zeitabschnitt</translation>
    </message>
    <message>
        <source>Share of the step full</source>
        <translation>Anteil des Schritts ausgelastet</translation>
    </message>
    <message>
        <source>bytes</source>
        <translation>Bytes</translation>
    </message>
    <message>
        <source>bytes/s</source>
        <translation>Bytes/s</translation>
    </message>
    <message>
        <source>Carried in %1 steps</source>
        <translation>In %1 Schritten befördert</translation>
    </message>
    <message>
        <source>Share of that time full</source>
        <translation>Anteil dieser Zeit voll</translation>
    </message>
</context>
<context>
    <name>orrery::LostTimeModel</name>
    <message>
        <source>%1 days</source>
        <translation>%1 Tage</translation>
    </message>
    <message>
        <source>%1 h</source>
        <translation>%1 h</translation>
    </message>
    <message>
        <source>%1 min</source>
        <translation>%1 min</translation>
    </message>
    <message>
        <source>%1 s</source>
        <translation>%1 s</translation>
    </message>
    <message>
        <source>productive</source>
        <translation>produktiv</translation>
    </message>
    <message>
        <source>%1 %</source>
        <translation>%1 %</translation>
    </message>
    <message>
        <source>Time of the run</source>
        <translation>Zeit des Laufs</translation>
    </message>
    <message>
        <source>Share</source>
        <translation>Anteil</translation>
    </message>
    <message>
        <source>Mean</source>
        <translation>Mittel</translation>
    </message>
    <message>
        <source>accelerator initialisation</source>
        <translation>Beschleuniger starten</translation>
    </message>
    <message>
        <source>training preparation</source>
        <translation>Training vorbereiten</translation>
    </message>
    <message>
        <source>program start-up</source>
        <translation>Programm anlaufen lassen</translation>
    </message>
    <message>
        <source>checkpoint save</source>
        <translation>Sicherung schreiben</translation>
    </message>
    <message>
        <source>checkpoint restore</source>
        <translation>Sicherung laden</translation>
    </message>
    <message>
        <source>wasted progress</source>
        <translation>verlorene Schritte</translation>
    </message>
    <message>
        <source>infrastructure recovery</source>
        <translation>Wiederherstellung</translation>
    </message>
    <message>
        <source>evaluation</source>
        <translation>Auswertung</translation>
    </message>
    <message>
        <source>data loading</source>
        <translation>Daten laden</translation>
    </message>
    <message>
        <source>slower steps</source>
        <translation>langsamere Schritte</translation>
    </message>
</context>
<context>
    <name>orrery::MainWindow</name>
    <message>
        <source>Open &amp;recent</source>
        <translation>Zuletzt &amp;geöffnet</translation>
    </message>
    <message>
        <source>&amp;File</source>
        <translation>&amp;Datei</translation>
    </message>
    <message>
        <source>&amp;New scenario</source>
        <translation>&amp;Neues Szenario</translation>
    </message>
    <message>
        <source>Opens a small scenario, to be changed</source>
        <translation>Ein kleines Szenario zum Ändern</translation>
    </message>
    <message>
        <source>new scenario</source>
        <translation>neues Szenario</translation>
    </message>
    <message>
        <source>&amp;Open…</source>
        <translation>&amp;Öffnen…</translation>
    </message>
    <message>
        <source>Opens scenarios, sweeps or traces</source>
        <translation>Szenarien, Reihen oder Aufzeichnungen</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Öffnen</translation>
    </message>
    <message>
        <source>Scenarios, sweeps and traces (*.json *.trace *.ort);;All files (*)</source>
        <translation>Szenarien, Reihen und Aufzeichnungen (*.json *.trace *.ort);;Alle Dateien (*)</translation>
    </message>
    <message>
        <source>&amp;Save the scenario</source>
        <translation>Szenario &amp;speichern</translation>
    </message>
    <message>
        <source>Writes the file that it was read from</source>
        <translation>Schreibt die Datei, aus der es gelesen wurde</translation>
    </message>
    <message>
        <source>Save the scenario &amp;as…</source>
        <translation>Szenario speichern &amp;unter…</translation>
    </message>
    <message>
        <source>Writes another file</source>
        <translation>Schreibt eine andere Datei</translation>
    </message>
    <message>
        <source>&amp;Export this view…</source>
        <translation>Diese Ansicht &amp;exportieren…</translation>
    </message>
    <message>
        <source>As PNG, SVG, PDF or CSV</source>
        <translation>Als PNG, SVG, PDF oder CSV</translation>
    </message>
    <message>
        <source>Export the &amp;trace…</source>
        <translation>&amp;Aufzeichnung exportieren…</translation>
    </message>
    <message>
        <source>As JSON for ui.perfetto.dev, or in Orrery&apos;s own format</source>
        <translation>Als JSON für ui.perfetto.dev oder im eigenen Format von Orrery</translation>
    </message>
    <message>
        <source>&amp;Quit</source>
        <translation>&amp;Beenden</translation>
    </message>
    <message>
        <source>The session comes back at the next start</source>
        <translation>Die Sitzung kommt beim nächsten Start wieder</translation>
    </message>
    <message>
        <source>&amp;Edit</source>
        <translation>&amp;Bearbeiten</translation>
    </message>
    <message>
        <source>&amp;Undo</source>
        <translation>&amp;Rückgängig</translation>
    </message>
    <message>
        <source>Takes back the last change of the scenario</source>
        <translation>Nimmt die letzte Änderung des Szenarios zurück</translation>
    </message>
    <message>
        <source>&amp;Redo</source>
        <translation>&amp;Wiederholen</translation>
    </message>
    <message>
        <source>Makes the change again that was taken back</source>
        <translation>Macht die zurückgenommene Änderung noch einmal</translation>
    </message>
    <message>
        <source>&amp;Run</source>
        <translation>&amp;Lauf</translation>
    </message>
    <message>
        <source>&amp;Copy as a new strategy</source>
        <translation>Als neue Strategie &amp;kopieren</translation>
    </message>
    <message>
        <source>Adds a copy of the current scenario, to change and compare</source>
        <translation>Das aktuelle Szenario noch einmal, zum Ändern und Vergleichen</translation>
    </message>
    <message>
        <source>%1, copy</source>
        <translation>%1, Kopie</translation>
    </message>
    <message>
        <source>&amp;Pin as baseline</source>
        <translation>Als &amp;Vergleichsbasis anheften</translation>
    </message>
    <message>
        <source>Compares the other runs with it; again: unpins it</source>
        <translation>Vergleicht die anderen Läufe damit; noch einmal: löst ihn</translation>
    </message>
    <message>
        <source>&amp;Remove from the table</source>
        <translation>Aus der Tabelle &amp;entfernen</translation>
    </message>
    <message>
        <source>Removes the runs chosen in the table; their files stay</source>
        <translation>Die gewählten Läufe; ihre Dateien bleiben</translation>
    </message>
    <message>
        <source>&amp;Filter the table</source>
        <translation>Tabelle &amp;filtern</translation>
    </message>
    <message>
        <source>Filters the table by name or figures</source>
        <translation>Filtert die Tabelle nach Namen oder Zahlen</translation>
    </message>
    <message>
        <source>Simulate as you &amp;type</source>
        <translation>Beim &amp;Tippen simulieren</translation>
    </message>
    <message>
        <source>Simulates a moment after each change of the scenario</source>
        <translation>Simuliert kurz nach jeder Änderung des Szenarios</translation>
    </message>
    <message>
        <source>Run or stop the s&amp;weep</source>
        <translation>&amp;Reihe starten oder anhalten</translation>
    </message>
    <message>
        <source>Runs or stops the sweep that is open</source>
        <translation>Startet oder hält die offene Variation an</translation>
    </message>
    <message>
        <source>&amp;Simulate now</source>
        <translation>Jetzt &amp;simulieren</translation>
    </message>
    <message>
        <source>Simulates the scenario as it stands</source>
        <translation>Simuliert das Szenario, wie es ist</translation>
    </message>
    <message>
        <source>Cance&amp;l</source>
        <translation>A&amp;bbrechen</translation>
    </message>
    <message>
        <source>Stops all that is being simulated or loaded</source>
        <translation>Hält alles an, was simuliert oder geladen wird</translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation>&amp;Ansicht</translation>
    </message>
    <message>
        <source>Brings the view to the front</source>
        <translation>Holt die Ansicht nach vorn</translation>
    </message>
    <message>
        <source>&amp;Full screen</source>
        <translation>&amp;Vollbild</translation>
    </message>
    <message>
        <source>Full screen, and back</source>
        <translation>Vollbild und zurück</translation>
    </message>
    <message>
        <source>&amp;Reset layout</source>
        <translation>Anordnung &amp;zurücksetzen</translation>
    </message>
    <message>
        <source>Puts every view back to its first place</source>
        <translation>Jede Ansicht an ihren ersten Platz</translation>
    </message>
    <message>
        <source>Copy a link to &amp;here</source>
        <translation>Verweis &amp;hierher kopieren</translation>
    </message>
    <message>
        <source>Copies the command line that shows these files, this time and this selection</source>
        <translation>Die Befehlszeile, die diese Dateien, diese Zeit und Auswahl zeigt</translation>
    </message>
    <message>
        <source>Copied: %1</source>
        <translation>Kopiert: %1</translation>
    </message>
    <message>
        <source>&amp;Light</source>
        <translation>&amp;Hell</translation>
    </message>
    <message>
        <source>Dark text on a light ground</source>
        <translation>Dunkel auf Hell</translation>
    </message>
    <message>
        <source>&amp;Dark</source>
        <translation>&amp;Dunkel</translation>
    </message>
    <message>
        <source>Light text on a dark ground</source>
        <translation>Hell auf Dunkel</translation>
    </message>
    <message>
        <source>As the des&amp;ktop</source>
        <translation>Wie der Des&amp;ktop</translation>
    </message>
    <message>
        <source>Light or dark as the desktop is, also when it changes</source>
        <translation>Hell oder dunkel wie der Desktop, auch wenn er wechselt</translation>
    </message>
    <message>
        <source>Light or dark</source>
        <translation>Hell oder dunkel</translation>
    </message>
    <message>
        <source>Switches to the other one</source>
        <translation>Wechselt zum anderen</translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation>&amp;Hilfe</translation>
    </message>
    <message>
        <source>&amp;Commands…</source>
        <translation>&amp;Befehle…</translation>
    </message>
    <message>
        <source>Find any command by a few letters</source>
        <translation>Jeden Befehl mit ein paar Buchstaben finden</translation>
    </message>
    <message>
        <source>&amp;Keys</source>
        <translation>&amp;Tasten</translation>
    </message>
    <message>
        <source>Shows every key on one page</source>
        <translation>Alle Tasten auf einer Seite</translation>
    </message>
    <message>
        <source>&amp;Examples</source>
        <translation>B&amp;eispiele</translation>
    </message>
    <message>
        <source>Shows example scenarios to begin with</source>
        <translation>Szenarien zum Anfangen</translation>
    </message>
    <message>
        <source>command line</source>
        <translation>Befehlszeile</translation>
    </message>
    <message>
        <source>--select %1: the trace shown has no such op on such a rank (a folded trace shows one rank of those alike)</source>
        <translation>--select %1: die gezeigte Aufzeichnung hat auf diesem Rang keine solche Operation (eine gefaltete zeigt einen Rang von gleichen)</translation>
    </message>
    <message>
        <source>Nothing yet</source>
        <translation>Noch nichts</translation>
    </message>
    <message>
        <source>The current run has no scenario to save</source>
        <translation>Der aktuelle Lauf hat kein Szenario zum Speichern</translation>
    </message>
    <message>
        <source>Save the scenario</source>
        <translation>Szenario speichern</translation>
    </message>
    <message>
        <source>Scenarios (*.json)</source>
        <translation>Szenarien (*.json)</translation>
    </message>
    <message>
        <source>save</source>
        <translation>Speichern</translation>
    </message>
    <message>
        <source>%1 saved</source>
        <translation>%1 gespeichert</translation>
    </message>
    <message>
        <source>Export %1</source>
        <translation>%1 exportieren</translation>
    </message>
    <message>
        <source>export</source>
        <translation>Export</translation>
    </message>
    <message>
        <source>%1 written</source>
        <translation>%1 geschrieben</translation>
    </message>
    <message>
        <source>the current run has no trace</source>
        <translation>der aktuelle Lauf hat keine Aufzeichnung</translation>
    </message>
    <message>
        <source>Export the trace</source>
        <translation>Aufzeichnung exportieren</translation>
    </message>
    <message>
        <source>For ui.perfetto.dev (*.json);;Orrery traces (*.trace)</source>
        <translation>Für ui.perfetto.dev (*.json);;Orrery-Aufzeichnungen (*.trace)</translation>
    </message>
    <message>
        <source>Orrery</source>
        <translation>Orrery</translation>
    </message>
    <message>
        <source>Strategies</source>
        <translation>Strategien</translation>
    </message>
    <message>
        <source>Scenario</source>
        <translation>Szenario</translation>
    </message>
    <message>
        <source>Timeline</source>
        <translation>Zeitachse</translation>
    </message>
    <message>
        <source>Compare</source>
        <translation>Vergleich</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Speicher</translation>
    </message>
    <message>
        <source>Breakdown</source>
        <translation>Aufteilung</translation>
    </message>
    <message>
        <source>Frontier</source>
        <translation>Pareto-Front</translation>
    </message>
    <message>
        <source>Placement</source>
        <translation>Platzierung</translation>
    </message>
    <message>
        <source>Topology</source>
        <translation>Topologie</translation>
    </message>
    <message>
        <source>Sweep</source>
        <translation>Reihe</translation>
    </message>
    <message>
        <source>Execution</source>
        <translation>Ausführung</translation>
    </message>
    <message>
        <source>Problems</source>
        <translation>Probleme</translation>
    </message>
    <message>
        <source>Work in progress</source>
        <translation>Laufende Arbeit</translation>
    </message>
    <message numerus="yes">
        <source>%n runs</source>
        <translation>
            <numerusform>%n Lauf</numerusform>
            <numerusform>%n Läufe</numerusform>
        </translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation>%1: %2</translation>
    </message>
    <message>
        <source>failed</source>
        <translation>fehlgeschlagen</translation>
    </message>
    <message>
        <source>session</source>
        <translation>Sitzung</translation>
    </message>
    <message>
        <source>%1 is no longer there</source>
        <translation>%1 ist nicht mehr da</translation>
    </message>
    <message>
        <source>&amp;Strategy</source>
        <translation>&amp;Strategie</translation>
    </message>
    <message>
        <source>The current run has no scenario to change</source>
        <translation>Der aktuelle Lauf hat kein Szenario zum Ändern</translation>
    </message>
    <message>
        <source>Pictures (*.png *.svg *.pdf);;Tables (*.csv)</source>
        <translation>Bilder (*.png *.svg *.pdf);;Tabellen (*.csv)</translation>
    </message>
    <message>
        <source>Delete measured runs…</source>
        <translation>Gemessene Läufe löschen…</translation>
    </message>
    <message>
        <source>Tables</source>
        <translation>Tabellen</translation>
    </message>
    <message>
        <source>Sort by a column</source>
        <translation>Nach einer Spalte sortieren</translation>
    </message>
    <message>
        <source>click its header</source>
        <translation>auf ihren Kopf klicken</translation>
    </message>
    <message>
        <source>Choose several rows</source>
        <translation>Mehrere Zeilen wählen</translation>
    </message>
    <message>
        <source>Copy the chosen rows</source>
        <translation>Gewählte Zeilen kopieren</translation>
    </message>
    <message>
        <source>%1 was changed by another program since it was read. Saving overwrites those changes.</source>
        <translation>%1 wurde von einem anderen Programm geändert, seit es gelesen wurde. Speichern überschreibt diese Änderungen.</translation>
    </message>
    <message>
        <source>Overwrite</source>
        <translation>Überschreiben</translation>
    </message>
    <message>
        <source>%1 was not saved</source>
        <translation>%1 wurde nicht gespeichert</translation>
    </message>
    <message>
        <source>%1 is there already.</source>
        <translation>%1 gibt es schon.</translation>
    </message>
    <message>
        <source>Written: %1</source>
        <translation>Geschrieben: %1</translation>
    </message>
    <message>
        <source>There are no measured runs</source>
        <translation>Es gibt keine gemessenen Läufe</translation>
    </message>
    <message numerus="yes">
        <source>%n measured run(s), %1 in all, will be deleted, and removed from the table.</source>
        <translation>
            <numerusform>%n gemessener Lauf, zusammen %1, wird gelöscht und aus der Tabelle entfernt.</numerusform>
            <numerusform>%n gemessene Läufe, zusammen %1, werden gelöscht und aus der Tabelle entfernt.</numerusform>
        </translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
    <message numerus="yes">
        <source>%n measured run(s) deleted</source>
        <translation>
            <numerusform>%n gemessener Lauf gelöscht</numerusform>
            <numerusform>%n gemessene Läufe gelöscht</numerusform>
        </translation>
    </message>
    <message>
        <source>%1[*] – Orrery</source>
        <translation>%1[*] – Orrery</translation>
    </message>
    <message>
        <source>%1 was changed by another program: it was read again</source>
        <translation>%1 wurde von einem anderen Programm geändert und neu gelesen</translation>
    </message>
    <message>
        <source>%1 was changed by another program; your changes here stay, and saving will ask first</source>
        <translation>%1 wurde von einem anderen Programm geändert; die Änderungen hier bleiben, und Speichern fragt zuerst</translation>
    </message>
    <message>
        <source>Deletes the traces of runs on this machine, which are kept for the next start</source>
        <translation>Löscht die Aufzeichnungen der Läufe auf diesem Rechner, die für den nächsten Start behalten werden</translation>
    </message>
    <message>
        <source>Find the &amp;best</source>
        <translation>Die &amp;beste finden</translation>
    </message>
    <message>
        <source>Searches the best strategy for the scenario: its degrees, micro batch, schedule, ZeRO and recompute are set free</source>
        <translation>Sucht die beste Strategie für das Szenario: Grade, Mikrobatch, Ablaufplan, ZeRO und Neuberechnung sind frei</translation>
    </message>
    <message>
        <source>searching: %1 of %2 strategies simulated, %3 left to look at</source>
        <translation>Suche: %1 von %2 Strategien simuliert, %3 noch anzusehen</translation>
    </message>
    <message>
        <source>Find the best</source>
        <translation>Die beste finden</translation>
    </message>
    <message>
        <source>%1 strategies found that fit, of %2 legal ones</source>
        <translation>%1 passende Strategien gefunden, von %2 zulässigen</translation>
    </message>
    <message>
        <source>Whole run</source>
        <translation>Ganzer Lauf</translation>
    </message>
    <message>
        <source>Workers</source>
        <translation>Arbeiter</translation>
    </message>
</context>
<context>
    <name>orrery::MarkersModel</name>
    <message>
        <source>Time</source>
        <translation>Zeit</translation>
    </message>
    <message>
        <source>Note</source>
        <translation>Notiz</translation>
    </message>
</context>
<context>
    <name>orrery::MemoryChart</name>
    <message>
        <source>Memory over time</source>
        <translation>Speicher über die Zeit</translation>
    </message>
    <message>
        <source>Peak %1 of %2</source>
        <translation>Höchststand %1 von %2</translation>
    </message>
    <message>
        <source>capacity %1</source>
        <translation>Kapazität %1</translation>
    </message>
    <message>
        <source>peak %1</source>
        <translation>Höchststand %1</translation>
    </message>
    <message>
        <source>out of memory here</source>
        <translation>reicht ab hier nicht</translation>
    </message>
    <message>
        <source>Zoom in</source>
        <translation>Vergrößern</translation>
    </message>
    <message>
        <source>Zoom out</source>
        <translation>Verkleinern</translation>
    </message>
    <message>
        <source>Zoom at the pointer</source>
        <translation>Am Zeiger zoomen</translation>
    </message>
    <message>
        <source>Ctrl+wheel</source>
        <translation>Strg+Rad</translation>
    </message>
    <message>
        <source>Earlier</source>
        <translation>Früher</translation>
    </message>
    <message>
        <source>Later</source>
        <translation>Später</translation>
    </message>
    <message>
        <source>Whole step</source>
        <translation>Ganzer Schritt</translation>
    </message>
    <message>
        <source>Zooms out as far as the step goes</source>
        <translation>Zeigt den ganzen Schritt</translation>
    </message>
    <message>
        <source>Zooms at the cursor, or in the middle</source>
        <translation>Am Zeiger, sonst in der Mitte</translation>
    </message>
    <message>
        <source>Moves a fifth of the time shown to the left</source>
        <translation>Um ein Fünftel der gezeigten Zeit nach links</translation>
    </message>
    <message>
        <source>Moves a fifth of the time shown to the right</source>
        <translation>Um ein Fünftel der gezeigten Zeit nach rechts</translation>
    </message>
</context>
<context>
    <name>orrery::MemoryKindsModel</name>
    <message>
        <source>all</source>
        <translation>alles</translation>
    </message>
    <message>
        <source>Kind</source>
        <translation>Art</translation>
    </message>
    <message>
        <source>At the cursor</source>
        <translation>Am Zeiger</translation>
    </message>
    <message>
        <source>At the peak</source>
        <translation>Am Höchststand</translation>
    </message>
    <message>
        <source>bytes</source>
        <translation>Bytes</translation>
    </message>
</context>
<context>
    <name>orrery::MemoryView</name>
    <message>
        <source>Memory over time</source>
        <translation>Speicher über die Zeit</translation>
    </message>
    <message>
        <source>Rank whose memory is shown</source>
        <translation>Rang, dessen Speicher gezeigt wird</translation>
    </message>
    <message>
        <source>Memory &amp;of</source>
        <translation>Speicher &amp;von</translation>
    </message>
    <message>
        <source>Go to the peak</source>
        <translation>Zum Höchststand</translation>
    </message>
    <message>
        <source>Memory by kind</source>
        <translation>Speicher nach Art</translation>
    </message>
    <message>
        <source>Buffers alive at the peak</source>
        <translation>Puffer, die an der Spitze leben</translation>
    </message>
    <message>
        <source>stage %1, rank %2 (of %3 alike)</source>
        <translation>Stufe %1, Rang %2 (von %3 gleichen)</translation>
    </message>
    <message>
        <source>stage %1, rank %2</source>
        <translation>Stufe %1, Rang %2</translation>
    </message>
    <message>
        <source>No run is open.</source>
        <translation>Kein Lauf ist offen.</translation>
    </message>
    <message>
        <source>%1 has no memory over time.</source>
        <translation>%1 sagt nichts über Speicher über die Zeit.</translation>
    </message>
    <message>
        <source>Peak %1 at %2.</source>
        <translation>Höchststand %1 bei %2.</translation>
    </message>
    <message>
        <source>%1 are free at that moment.</source>
        <translation>%1 sind dann frei.</translation>
    </message>
    <message>
        <source>Memory runs out at %1; the peak is %2 too large.</source>
        <translation>Der Speicher läuft bei %1 über; die Spitze ist %2 zu groß.</translation>
    </message>
    <message>
        <source>the current run has no memory over time</source>
        <translation>der aktuelle Lauf sagt nichts über Speicher über die Zeit</translation>
    </message>
    <message>
        <source>time (s)</source>
        <translation>Zeit (s)</translation>
    </message>
    <message>
        <source>%1 (bytes)</source>
        <translation>%1 (Byte)</translation>
    </message>
    <message>
        <source>all (bytes)</source>
        <translation>alle (Bytes)</translation>
    </message>
    <message>
        <source>Shows the time round the highest memory</source>
        <translation>Zeigt die Zeit um den höchsten Speicherbedarf</translation>
    </message>
    <message>
        <source>Memory by tier</source>
        <translation>Speicher nach Ebene</translation>
    </message>
    <message>
        <source>Memory of a node that serves</source>
        <translation>Speicher eines Knotens mit Server</translation>
    </message>
    <message>
        <source>Memory of node %1, all its ranks</source>
        <translation>Speicher von Knoten %1, alle seine Ränge</translation>
    </message>
    <message>
        <source>NVMe of a node</source>
        <translation>NVMe eines Knotens</translation>
    </message>
    <message>
        <source>NVMe of node %1, all its ranks</source>
        <translation>NVMe von Knoten %1, alle seine Ränge</translation>
    </message>
    <message>
        <source>Memory of the device</source>
        <translation>Speicher des Geräts</translation>
    </message>
</context>
<context>
    <name>orrery::Minimap</name>
    <message>
        <source>Overview of the whole step</source>
        <translation>Überblick über den ganzen Schritt</translation>
    </message>
    <message>
        <source>Drag the frame to move, its edges to resize, beside it to choose another range.</source>
        <translation>Den Rahmen ziehen zum Verschieben, seine Kanten zum Ändern, daneben für einen anderen Bereich.</translation>
    </message>
</context>
<context>
    <name>orrery::OffendersModel</name>
    <message>
        <source>Slice</source>
        <translation>Abschnitt</translation>
    </message>
    <message>
        <source>Rank</source>
        <translation>Rang</translation>
    </message>
    <message>
        <source>Microbatch</source>
        <translation>Mikrobatch</translation>
    </message>
    <message>
        <source>Predicted</source>
        <translation>Vorhergesagt</translation>
    </message>
    <message>
        <source>Measured</source>
        <translation>Gemessen</translation>
    </message>
    <message>
        <source>Difference</source>
        <translation>Unterschied</translation>
    </message>
</context>
<context>
    <name>orrery::ParetoPlot</name>
    <message>
        <source>Frontier of strategies</source>
        <translation>Pareto-Front der Strategien</translation>
    </message>
    <message>
        <source>No run has both figures yet</source>
        <translation>Noch hat kein Lauf beide Zahlen</translation>
    </message>
    <message>
        <source>%1: %2, %3</source>
        <translation>%1: %2, %3</translation>
    </message>
    <message>
        <source>&lt;br&gt;does not fit</source>
        <translation>&lt;br&gt;passt nicht</translation>
    </message>
    <message>
        <source>Next point</source>
        <translation>Nächster Punkt</translation>
    </message>
    <message>
        <source>Point before</source>
        <translation>Punkt davor</translation>
    </message>
    <message>
        <source>Choose the point</source>
        <translation>Punkt wählen</translation>
    </message>
    <message>
        <source>Choose all points in a rectangle</source>
        <translation>Alle Punkte in einem Rechteck wählen</translation>
    </message>
    <message>
        <source>drag</source>
        <translation>ziehen</translation>
    </message>
    <message>
        <source>Goes to the point to the right</source>
        <translation>Zum Punkt rechts</translation>
    </message>
    <message>
        <source>Goes to the point to the left</source>
        <translation>Zum Punkt links</translation>
    </message>
    <message>
        <source>Adds it to the chosen points; again: takes it away</source>
        <translation>Nimmt ihn zu den gewählten Punkten; noch einmal: nimmt ihn heraus</translation>
    </message>
</context>
<context>
    <name>orrery::ParetoView</name>
    <message>
        <source>Peak memory</source>
        <translation>Höchster Speicher</translation>
    </message>
    <message>
        <source>Devices</source>
        <translation>Geräte</translation>
    </message>
    <message>
        <source>Cost of a step</source>
        <translation>Kosten eines Schritts</translation>
    </message>
    <message>
        <source>Step time</source>
        <translation>Schrittzeit</translation>
    </message>
    <message>
        <source>Device time of a token</source>
        <translation>Gerätezeit je Token</translation>
    </message>
    <message>
        <source>Bubble</source>
        <translation>Blase</translation>
    </message>
    <message>
        <source>Stragglers</source>
        <translation>Nachzügler</translation>
    </message>
    <message>
        <source>Figure on the horizontal axis</source>
        <translation>Zahl nach rechts</translation>
    </message>
    <message>
        <source>Figure on the vertical axis</source>
        <translation>Zahl nach oben</translation>
    </message>
    <message>
        <source>against</source>
        <translation>gegen</translation>
    </message>
    <message>
        <source>run</source>
        <translation>Lauf</translation>
    </message>
    <message>
        <source>fits</source>
        <translation>passt</translation>
    </message>
    <message>
        <source>on the frontier</source>
        <translation>auf der Front</translation>
    </message>
    <message>
        <source>yes</source>
        <translation>ja</translation>
    </message>
    <message>
        <source>no</source>
        <translation>nein</translation>
    </message>
</context>
<context>
    <name>orrery::PlacementPlot</name>
    <message>
        <source>Devices and what they hold</source>
        <translation>Geräte und was sie halten</translation>
    </message>
    <message>
        <source>The current run has no plan: simulate a scenario</source>
        <translation>Der aktuelle Lauf hat keinen Plan: ein Szenario simulieren</translation>
    </message>
    <message>
        <source>Device to the right</source>
        <translation>Gerät rechts</translation>
    </message>
    <message>
        <source>Device to the left</source>
        <translation>Gerät links</translation>
    </message>
    <message>
        <source>Device below</source>
        <translation>Gerät darunter</translation>
    </message>
    <message>
        <source>Device above</source>
        <translation>Gerät darüber</translation>
    </message>
    <message>
        <source>Choose the device</source>
        <translation>Gerät wählen</translation>
    </message>
    <message>
        <source>Timelines show the devices that are chosen; again: no longer</source>
        <translation>Zeitachsen zeigen die gewählten Geräte; noch einmal: nicht mehr</translation>
    </message>
    <message>
        <source>Choose no device</source>
        <translation>Kein Gerät wählen</translation>
    </message>
    <message>
        <source>Timelines show all of them again</source>
        <translation>Zeitachsen zeigen wieder alle</translation>
    </message>
    <message>
        <source>Show all devices</source>
        <translation>Alle Geräte zeigen</translation>
    </message>
    <message>
        <source>Choose all devices in a rectangle</source>
        <translation>Alle Geräte in einem Rechteck wählen</translation>
    </message>
    <message>
        <source>drag</source>
        <translation>ziehen</translation>
    </message>
    <message>
        <source>Zoom at the pointer</source>
        <translation>Am Zeiger zoomen</translation>
    </message>
    <message>
        <source>Ctrl+wheel</source>
        <translation>Strg+Rad</translation>
    </message>
    <message>
        <source>Goes to the nearest device in that direction</source>
        <translation>Zum nächsten Gerät in dieser Richtung</translation>
    </message>
    <message>
        <source>Draws the devices as large as they fit</source>
        <translation>Zeichnet die Geräte so groß, wie sie passen</translation>
    </message>
</context>
<context>
    <name>orrery::PlacementView</name>
    <message>
        <source>By nodes</source>
        <translation>Nach Knoten</translation>
    </message>
    <message>
        <source>By parallelism</source>
        <translation>Nach Parallelität</translation>
    </message>
    <message>
        <source>Stages down, shards across, a box for each replica</source>
        <translation>Stufen nach unten, Teile nebeneinander, ein Kasten je Kopie</translation>
    </message>
    <message>
        <source>Arrangement</source>
        <translation>Anordnung</translation>
    </message>
    <message>
        <source>Coloured by stage</source>
        <translation>Farbe nach Stufe (Schichten)</translation>
    </message>
    <message>
        <source>Coloured by tensor shard</source>
        <translation>nach Tensorteil</translation>
    </message>
    <message>
        <source>Coloured by context shard</source>
        <translation>nach Kontextteil</translation>
    </message>
    <message>
        <source>Coloured by data</source>
        <translation>nach Daten</translation>
    </message>
    <message>
        <source>Coloured by experts</source>
        <translation>nach Experten</translation>
    </message>
    <message>
        <source>Meaning of the colour</source>
        <translation>Was die Farbe sagt</translation>
    </message>
    <message>
        <source>%1 devices: tensor %2 x context %3 x pipeline %4 x data %5</source>
        <translation>%1 Geräte: Tensor %2 x Kontext %3 x Pipeline %4 x Daten %5</translation>
    </message>
    <message>
        <source>, experts over %1</source>
        <translation>, Experten über %1</translation>
    </message>
    <message>
        <source>the current run has no plan</source>
        <translation>der aktuelle Lauf hat keinen Plan</translation>
    </message>
    <message>
        <source>rank</source>
        <translation>Rang</translation>
    </message>
    <message>
        <source>node</source>
        <translation>Knoten</translation>
    </message>
    <message>
        <source>device</source>
        <translation>Gerät</translation>
    </message>
    <message>
        <source>stage</source>
        <translation>Stufe</translation>
    </message>
    <message>
        <source>tensor shard</source>
        <translation>Tensorteil</translation>
    </message>
    <message>
        <source>context shard</source>
        <translation>Kontextteil</translation>
    </message>
    <message>
        <source>data</source>
        <translation>Daten</translation>
    </message>
    <message>
        <source>layers</source>
        <translation>Schichten</translation>
    </message>
    <message>
        <source>first expert</source>
        <translation>erster Experte</translation>
    </message>
    <message>
        <source>experts</source>
        <translation>Experten</translation>
    </message>
    <message>
        <source>parameters (bytes)</source>
        <translation>Parameter (Byte)</translation>
    </message>
    <message>
        <source>experts&apos; parameters (bytes)</source>
        <translation>Parameter der Experten (Byte)</translation>
    </message>
    <message>
        <source>gradients (bytes)</source>
        <translation>Gradienten (Byte)</translation>
    </message>
    <message>
        <source>optimizer states (bytes)</source>
        <translation>Optimiererzustände (Byte)</translation>
    </message>
</context>
<context>
    <name>orrery::PredictedMeasured</name>
    <message>
        <source>Prediction over measurement</source>
        <translation>Vorhersage über Messung</translation>
    </message>
    <message>
        <source>Predicted run</source>
        <translation>Vorhergesagter Lauf</translation>
    </message>
    <message>
        <source>Measured run</source>
        <translation>Gemessener Lauf</translation>
    </message>
    <message>
        <source>Predicted</source>
        <translation>Vorhergesagt</translation>
    </message>
    <message>
        <source>measured</source>
        <translation>gemessen</translation>
    </message>
    <message>
        <source>Open the trace of a real run (simexec run SCENARIO --trace FILE) and the scenario that predicts it.</source>
        <translation>Die Aufzeichnung eines wirklichen Laufs (simexec run SZENARIO --trace DATEI) öffnen und das Szenario, das ihn vorhersagt.</translation>
    </message>
    <message>
        <source>Error by kind of op</source>
        <translation>Fehler nach Art der Operation</translation>
    </message>
    <message>
        <source>Slices that are furthest off</source>
        <translation>Abschnitte mit der größten Abweichung</translation>
    </message>
    <message>
        <source>Comparing ..</source>
        <translation>Vergleicht ..</translation>
    </message>
    <message>
        <source>Step %1 predicted, %2 measured</source>
        <translation>Schritt %1 vorhergesagt, %2 gemessen</translation>
    </message>
    <message>
        <source>: %1%2 %.</source>
        <translation>: %1%2 %.</translation>
    </message>
    <message>
        <source>Without a counterpart: %L1 predicted slices, %L2 measured.</source>
        <translation>Ohne Gegenstück: %L1 vorhergesagte Abschnitte, %L2 gemessene.</translation>
    </message>
    <message>
        <source>no prediction is laid over a measurement</source>
        <translation>keine Vorhersage liegt über einer Messung</translation>
    </message>
</context>
<context>
    <name>orrery::ProblemsModel</name>
    <message>
        <source>Source</source>
        <translation>Quelle</translation>
    </message>
    <message>
        <source>Where</source>
        <translation>Wo</translation>
    </message>
    <message>
        <source>Problem</source>
        <translation>Problem</translation>
    </message>
</context>
<context>
    <name>orrery::ProblemsView</name>
    <message>
        <source>Problems</source>
        <translation>Probleme</translation>
    </message>
</context>
<context>
    <name>orrery::RunLabel</name>
    <message>
        <source>Run that is shown</source>
        <translation>Gezeigter Lauf</translation>
    </message>
</context>
<context>
    <name>orrery::RunStore</name>
    <message>
        <source>%1: there is no such file</source>
        <translation>%1: diese Datei gibt es nicht</translation>
    </message>
    <message>
        <source>%1: neither a trace nor a scenario (it is larger than any scenario)</source>
        <translation>%1: weder Aufzeichnung noch Szenario (größer als jedes Szenario)</translation>
    </message>
    <message>
        <source>%1: cannot be read</source>
        <translation>%1: kann nicht gelesen werden</translation>
    </message>
    <message>
        <source>run %1</source>
        <translation>Lauf %1</translation>
    </message>
    <message>
        <source>%1 (working)</source>
        <translation>%1 (in Arbeit)</translation>
    </message>
    <message>
        <source>%1 (failed)</source>
        <translation>%1 (fehlgeschlagen)</translation>
    </message>
    <message>
        <source>%1 (out of date)</source>
        <translation>%1 (veraltet)</translation>
    </message>
    <message>
        <source>The scenario was changed and cannot be simulated as it stands: what is shown is of the text before. See Problems.</source>
        <translation>Das Szenario wurde geändert und kann so nicht simuliert werden: gezeigt wird das Ergebnis des vorigen Textes. Siehe Probleme.</translation>
    </message>
    <message>
        <source>%1: a whole run for ui.perfetto.dev, which cannot be opened here: write it once more with simrun export --to run-trace</source>
        <translation>%1: ein ganzer Lauf für ui.perfetto.dev, der hier nicht geöffnet werden kann: mit simrun export --to run-trace noch einmal schreiben</translation>
    </message>
    <message>
        <source>%1: a trace for ui.perfetto.dev, which cannot be opened here: write it once more with --trace and a name that does not end in .json</source>
        <translation>%1: eine Aufzeichnung für ui.perfetto.dev, die hier nicht geöffnet werden kann: noch einmal schreiben mit --trace und einem Namen, der nicht auf .json endet</translation>
    </message>
</context>
<context>
    <name>orrery::ScenarioDocument</name>
    <message>
        <source>typing</source>
        <translation>Tippen</translation>
    </message>
    <message>
        <source>%1 could not be written: %2</source>
        <translation>%1 konnte nicht geschrieben werden: %2</translation>
    </message>
    <message>
        <source>%1 cannot be read</source>
        <translation>%1 kann nicht gelesen werden</translation>
    </message>
    <message>
        <source>reading the file again</source>
        <translation>die Datei neu lesen</translation>
    </message>
</context>
<context>
    <name>orrery::ScenarioEditor</name>
    <message>
        <source>Fields of the scenario</source>
        <translation>Felder des Szenarios</translation>
    </message>
    <message>
        <source>Fields that differ from the baseline</source>
        <translation>Was anders ist als in der Vergleichsbasis</translation>
    </message>
    <message>
        <source>Form</source>
        <translation>Formular</translation>
    </message>
    <message>
        <source>Text</source>
        <translation>Text</translation>
    </message>
    <message>
        <source>Against the baseline</source>
        <translation>Gegen Basis</translation>
    </message>
    <message>
        <source>Problems of the scenario</source>
        <translation>Probleme des Szenarios</translation>
    </message>
    <message>
        <source>Against the baseline (%1)</source>
        <translation>Gegen die Vergleichsbasis (%1)</translation>
    </message>
    <message>
        <source>Open a scenario, or make a new one (Ctrl+N)</source>
        <translation>Ein Szenario öffnen oder ein neues anlegen (Strg+N)</translation>
    </message>
    <message>
        <source>The current run has no scenario: it is only a trace</source>
        <translation>Der aktuelle Lauf hat kein Szenario: er ist nur eine Aufzeichnung</translation>
    </message>
    <message numerus="yes">
        <source>⚠ %n problem(s): the figures shown are of the text before</source>
        <translation>
            <numerusform>⚠ %n Problem: die Zahlen gehören zum Text davor</numerusform>
            <numerusform>⚠ %n Probleme: die Zahlen gehören zum Text davor</numerusform>
        </translation>
    </message>
    <message>
        <source>Note: %1</source>
        <translation>Hinweis: %1</translation>
    </message>
    <message>
        <source>✓ correct: %1 devices</source>
        <translation>✓ richtig: %1 Geräte</translation>
    </message>
    <message>
        <source>Clear: the default holds (Delete)</source>
        <translation>Auslassen: die Vorgabe gilt (Entf)</translation>
    </message>
    <message>
        <source>Show in the text</source>
        <translation>Im Text zeigen</translation>
    </message>
    <message>
        <source>Presets</source>
        <translation>Vorlagen</translation>
    </message>
    <message>
        <source>Strategies to begin with</source>
        <translation>Strategien zum Anfangen</translation>
    </message>
    <message>
        <source>Presets of the strategy</source>
        <translation>Vorlagen der Strategie</translation>
    </message>
    <message>
        <source>✓ correct: 1 device</source>
        <translation>✓ richtig: 1 Gerät</translation>
    </message>
</context>
<context>
    <name>orrery::ScenarioText</name>
    <message>
        <source>Text of the scenario</source>
        <translation>Text des Szenarios</translation>
    </message>
</context>
<context>
    <name>orrery::SideBySide</name>
    <message>
        <source>Runs above each other</source>
        <translation>Läufe übereinander</translation>
    </message>
    <message>
        <source>by time</source>
        <translation>nach Zeit</translation>
    </message>
    <message>
        <source>by step: stretched to one length</source>
        <translation>nach Schritt: auf eine Länge gestreckt</translation>
    </message>
    <message>
        <source>Align runs</source>
        <translation>Läufe ausrichten</translation>
    </message>
    <message>
        <source>&amp;Align</source>
        <translation>Aus&amp;richten</translation>
    </message>
    <message>
        <source>Differences</source>
        <translation>Unterschiede</translation>
    </message>
    <message>
        <source>Comparing needs two runs with a timeline: choose them in the table of strategies.</source>
        <translation>Zum Vergleich gehören zwei Läufe mit Zeitachse: in der Tabelle der Strategien wählen.</translation>
    </message>
    <message>
        <source>&lt;b&gt;%1&lt;/b&gt;: step %2</source>
        <translation>&lt;b&gt;%1&lt;/b&gt;: Schritt %2</translation>
    </message>
    <message>
        <source>, %1%2 %</source>
        <translation>, %1%2 %</translation>
    </message>
    <message>
        <source>Timeline of %1</source>
        <translation>Zeitachse von %1</translation>
    </message>
    <message>
        <source>In the area, per rank:</source>
        <translation>In der Fläche, je Rang:</translation>
    </message>
    <message>
        <source>In the range shown, per rank (drag for an area):</source>
        <translation>Im gezeigten Bereich, je Rang (ziehen für eine Fläche):</translation>
    </message>
    <message>
        <source>no two runs are compared</source>
        <translation>es werden keine zwei Läufe verglichen</translation>
    </message>
    <message>
        <source>simulated</source>
        <translation>simuliert</translation>
    </message>
</context>
<context>
    <name>orrery::StrategiesModel</name>
    <message>
        <source>baseline</source>
        <translation>Basis</translation>
    </message>
    <message>
        <source>From the sweep: Enter or a double click simulates it in full</source>
        <translation>Aus der Reihe: Eingabe oder Doppelklick simuliert es ganz</translation>
    </message>
    <message>
        <source>Run</source>
        <translation>Lauf</translation>
    </message>
    <message>
        <source>Double-click to rename</source>
        <translation>Doppelklick zum Umbenennen</translation>
    </message>
    <message>
        <source>Step</source>
        <translation>Schritt</translation>
    </message>
    <message>
        <source>Steady time of one optimizer step</source>
        <translation>Dauer eines Optimiererschritts im Gleichlauf</translation>
    </message>
    <message>
        <source>Against baseline</source>
        <translation>Gegen Basis</translation>
    </message>
    <message>
        <source>Step time against the pinned run&apos;s</source>
        <translation>Schrittzeit gegen die des angehefteten Laufs</translation>
    </message>
    <message>
        <source>Where the step&apos;s time goes</source>
        <translation>Wohin ein Schritt geht</translation>
    </message>
    <message>
        <source>Mean over all devices; all rows on one scale</source>
        <translation>Mittel über alle Geräte; alle Zeilen in einem Maßstab</translation>
    </message>
    <message>
        <source>Tokens/s</source>
        <translation>Token/s</translation>
    </message>
    <message>
        <source>All devices together</source>
        <translation>Des ganzen Clusters</translation>
    </message>
    <message>
        <source>MFU</source>
        <translation>MFU</translation>
    </message>
    <message>
        <source>Model FLOPs over the devices&apos; dense peak, no recompute</source>
        <translation>FLOPs des Modells durch die dichte Spitze der Geräte, ohne Neuberechnung</translation>
    </message>
    <message>
        <source>Bubble</source>
        <translation>Blase</translation>
    </message>
    <message>
        <source>Stragglers</source>
        <translation>Nachzügler</translation>
    </message>
    <message>
        <source>Share of the step in which devices wait for other stages of the pipeline</source>
        <translation>Anteil des Schritts, in dem Geräte der Pipeline wegen ruhen</translation>
    </message>
    <message>
        <source>Share of the step in which devices wait for slower ones of their own stage</source>
        <translation>Anteil des Schritts, in dem Geräte auf langsamere der eigenen Stufe warten</translation>
    </message>
    <message>
        <source>Tensor</source>
        <translation>Tensor</translation>
    </message>
    <message>
        <source>Exposed tensor-parallel communication, share of the step</source>
        <translation>Unverdeckte tensorparallele Kommunikation, Anteil am Schritt</translation>
    </message>
    <message>
        <source>Context</source>
        <translation>Kontext</translation>
    </message>
    <message>
        <source>Exposed context-parallel communication, share of the step</source>
        <translation>Unverdeckte kontextparallele Kommunikation, Anteil am Schritt</translation>
    </message>
    <message>
        <source>Expert</source>
        <translation>Experten</translation>
    </message>
    <message>
        <source>Exposed expert-parallel communication, share of the step</source>
        <translation>Unverdeckte expertenparallele Kommunikation, Anteil am Schritt</translation>
    </message>
    <message>
        <source>Pipeline</source>
        <translation>Pipeline</translation>
    </message>
    <message>
        <source>Exposed transfers between stages, share of the step</source>
        <translation>Unverdeckte Übertragungen zwischen Stufen, Anteil am Schritt</translation>
    </message>
    <message>
        <source>Data</source>
        <translation>Daten</translation>
    </message>
    <message>
        <source>Exposed data-parallel communication, share of the step</source>
        <translation>Unverdeckte datenparallele Kommunikation, Anteil am Schritt</translation>
    </message>
    <message>
        <source>Peak memory</source>
        <translation>Höchster Speicher</translation>
    </message>
    <message>
        <source>The fullest stage&apos;s; 1 GB = 1e9 bytes</source>
        <translation>Der vollsten Stufe, 1 GB = 1e9 Byte</translation>
    </message>
    <message>
        <source>Headroom</source>
        <translation>Reserve</translation>
    </message>
    <message>
        <source>Capacity less the peak; negative: does not fit</source>
        <translation>Kapazität minus Höchststand; negativ: passt nicht</translation>
    </message>
    <message>
        <source>Fits</source>
        <translation>Passt</translation>
    </message>
    <message>
        <source>Whether the fullest stage fits in device memory</source>
        <translation>In den Gerätespeicher</translation>
    </message>
    <message>
        <source>Cost of a step</source>
        <translation>Kosten eines Schritts</translation>
    </message>
    <message>
        <source>Known where the cluster gives a price of its devices</source>
        <translation>Wo der Cluster sagt, was seine Geräte kosten</translation>
    </message>
    <message>
        <source>Devices</source>
        <translation>Geräte</translation>
    </message>
    <message>
        <source>out of date</source>
        <translation>veraltet</translation>
    </message>
    <message>
        <source>fits, narrowly</source>
        <translation>passt knapp</translation>
    </message>
    <message>
        <source>too big, narrowly</source>
        <translation>knapp zu groß</translation>
    </message>
    <message>
        <source>fits</source>
        <translation>passt</translation>
    </message>
    <message>
        <source>too big</source>
        <translation>zu groß</translation>
    </message>
    <message>
        <source>bytes</source>
        <translation>Bytes</translation>
    </message>
    <message>
        <source>Within</source>
        <translation>Genauigkeit</translation>
    </message>
    <message>
        <source>Four of five measured steps lie in this interval around the predicted one</source>
        <translation>Vier von fünf gemessenen Schritten liegen in diesem Bereich um den vorhergesagten</translation>
    </message>
    <message>
        <source>Behind the best</source>
        <translation>Hinter der besten</translation>
    </message>
    <message>
        <source>Of what &quot;Find the best&quot; has found: the number that decides</source>
        <translation>Von dem, was „Die beste finden“ gefunden hat: die Zahl, die entscheidet</translation>
    </message>
</context>
<context>
    <name>orrery::StrategiesView</name>
    <message>
        <source>Filter: words of the name, fits, mfu&gt;40, step&lt;2, memory&lt;70, bubble&lt;10, devices&lt;=64</source>
        <translation>Filter: Wörter des Namens, fits, mfu&gt;40, step&lt;2, memory&lt;70, bubble&lt;10, devices&lt;=64</translation>
    </message>
    <message>
        <source>Filter of the strategies</source>
        <translation>Filter der Strategien</translation>
    </message>
    <message>
        <source>Strategies</source>
        <translation>Strategien</translation>
    </message>
    <message>
        <source>Simulate in full</source>
        <translation>Ganz simulieren</translation>
    </message>
    <message>
        <source>Unpin the baseline</source>
        <translation>Vergleichsbasis lösen</translation>
    </message>
    <message>
        <source>Pin as baseline</source>
        <translation>Als Vergleichsbasis anheften</translation>
    </message>
    <message>
        <source>Edit its scenario</source>
        <translation>Sein Szenario bearbeiten</translation>
    </message>
    <message>
        <source>Remove from the table</source>
        <translation>Aus der Tabelle entfernen</translation>
    </message>
</context>
<context>
    <name>orrery::SweepModel</name>
    <message>
        <source>Fits</source>
        <translation>Passt</translation>
    </message>
    <message>
        <source>Step</source>
        <translation>Schritt</translation>
    </message>
    <message>
        <source>Tokens/s</source>
        <translation>Token/s</translation>
    </message>
    <message>
        <source>MFU</source>
        <translation>MFU</translation>
    </message>
    <message>
        <source>Bubble</source>
        <translation>Blase</translation>
    </message>
    <message>
        <source>Stragglers</source>
        <translation>Nachzügler</translation>
    </message>
    <message>
        <source>Peak memory</source>
        <translation>Höchster Speicher</translation>
    </message>
    <message>
        <source>Reason</source>
        <translation>Grund</translation>
    </message>
    <message>
        <source>fits, narrowly</source>
        <translation>passt knapp</translation>
    </message>
    <message>
        <source>fits</source>
        <translation>passt</translation>
    </message>
    <message>
        <source>too big, narrowly</source>
        <translation>knapp zu groß</translation>
    </message>
    <message>
        <source>too big</source>
        <translation>zu groß</translation>
    </message>
    <message>
        <source>impossible</source>
        <translation>unmöglich</translation>
    </message>
    <message>
        <source>failed</source>
        <translation>fehlgeschlagen</translation>
    </message>
    <message>
        <source>bytes</source>
        <translation>Bytes</translation>
    </message>
</context>
<context>
    <name>orrery::SweepView</name>
    <message>
        <source>No sweep is open</source>
        <translation>Keine Reihe ist offen</translation>
    </message>
    <message>
        <source>Run</source>
        <translation>Lauf</translation>
    </message>
    <message>
        <source>Add to strategies</source>
        <translation>Zu den Strategien</translation>
    </message>
    <message>
        <source>Points of the sweep</source>
        <translation>Punkte der Reihe</translation>
    </message>
    <message>
        <source>Horizontal axis</source>
        <translation>Achse nach rechts</translation>
    </message>
    <message>
        <source>Vertical axis</source>
        <translation>Achse nach unten</translation>
    </message>
    <message>
        <source>Figure</source>
        <translation>Zahl</translation>
    </message>
    <message>
        <source>step time</source>
        <translation>Schrittzeit</translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation>Token/s</translation>
    </message>
    <message>
        <source>MFU</source>
        <translation>MFU</translation>
    </message>
    <message>
        <source>bubble</source>
        <translation>Blase</translation>
    </message>
    <message>
        <source>stragglers</source>
        <translation>Nachzügler</translation>
    </message>
    <message>
        <source>peak memory</source>
        <translation>höchster Speicher</translation>
    </message>
    <message>
        <source>Points computed</source>
        <translation>Berechnete Punkte</translation>
    </message>
    <message>
        <source>Simulates the chosen points in full and adds them to the table of strategies (Enter)</source>
        <translation>Simuliert die gewählten Punkte ganz und nimmt sie in die Tabelle der Strategien auf (Eingabe)</translation>
    </message>
    <message>
        <source>Best</source>
        <translation>Beste</translation>
    </message>
    <message>
        <source>over</source>
        <translation>über</translation>
    </message>
    <message>
        <source>and</source>
        <translation>und</translation>
    </message>
    <message numerus="yes">
        <source>%n combinations</source>
        <translation>
            <numerusform>%n Kombination</numerusform>
            <numerusform>%n Kombinationen</numerusform>
        </translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 von %2</translation>
    </message>
    <message>
        <source>, about %1 left</source>
        <translation>, noch etwa %1</translation>
    </message>
    <message>
        <source>%1 s</source>
        <translation>%1 s</translation>
    </message>
    <message>
        <source>%1 min</source>
        <translation>%1 min</translation>
    </message>
    <message>
        <source>Stopped: %1 of %2 computed; Run goes on from here</source>
        <translation>Angehalten: %1 von %2 berechnet; Lauf macht hier weiter</translation>
    </message>
    <message>
        <source>%1 of %2 combinations fit</source>
        <translation>%1 von %2 Kombinationen passen</translation>
    </message>
    <message>
        <source>%1 of %2 points computed</source>
        <translation>%1 von %2 Punkten berechnet</translation>
    </message>
    <message>
        <source>%1 cannot be added: %2</source>
        <translation>%1 kann nicht hinzugefügt werden: %2</translation>
    </message>
    <message>
        <source>Simulates the chosen points in full and adds them to the table of strategies</source>
        <translation>Simuliert die gewählten Punkte ganz und fügt sie der Tabelle der Strategien hinzu</translation>
    </message>
    <message>
        <source>Map of: %1</source>
        <translation>Karte von: %1</translation>
    </message>
    <message>
        <source>Colours the cells by this figure</source>
        <translation>Färbt die Zellen nach dieser Zahl</translation>
    </message>
</context>
<context>
    <name>orrery::TiersModel</name>
    <message>
        <source>capacity not known</source>
        <translation>Kapazität nicht bekannt</translation>
    </message>
    <message>
        <source>fits</source>
        <translation>passt</translation>
    </message>
    <message>
        <source>%1 too large</source>
        <translation>%1 zu groß</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Speicher</translation>
    </message>
    <message>
        <source>Peak</source>
        <translation>Spitze</translation>
    </message>
    <message>
        <source>Capacity</source>
        <translation>Kapazität</translation>
    </message>
    <message>
        <source>Free</source>
        <translation>Frei</translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation>Urteil</translation>
    </message>
    <message>
        <source>At the peak</source>
        <translation>An der Spitze</translation>
    </message>
    <message>
        <source>bytes</source>
        <translation>Bytes</translation>
    </message>
</context>
<context>
    <name>orrery::Timeline</name>
    <message>
        <source>Timeline</source>
        <translation>Zeitachse</translation>
    </message>
    <message>
        <source>Ranks and queues over time. W and S zoom, A and D pan, the arrow keys choose a row, comma and full stop a slice.</source>
        <translation>Ränge und Warteschlangen über die Zeit. W und S zoomen, A und D verschieben, die Pfeiltasten wählen eine Zeile, Komma und Punkt einen Abschnitt.</translation>
    </message>
    <message>
        <source>Ctrl+wheel</source>
        <translation>Strg+Rad</translation>
    </message>
    <message>
        <source>%1 %2 %</source>
        <translation>%1 %2 %</translation>
    </message>
    <message>
        <source>idle</source>
        <translation>ruht</translation>
    </message>
    <message>
        <source>%1 shown</source>
        <translation>%1 gezeigt</translation>
    </message>
    <message>
        <source>Zoom in</source>
        <translation>Vergrößern</translation>
    </message>
    <message>
        <source>Zoom out</source>
        <translation>Verkleinern</translation>
    </message>
    <message>
        <source>Zoom at the pointer</source>
        <translation>Am Zeiger zoomen</translation>
    </message>
    <message>
        <source>Earlier</source>
        <translation>Früher</translation>
    </message>
    <message>
        <source>Later</source>
        <translation>Später</translation>
    </message>
    <message>
        <source>Whole step</source>
        <translation>Ganzer Schritt</translation>
    </message>
    <message>
        <source>Zooms out as far as the step goes</source>
        <translation>Zeigt den ganzen Schritt</translation>
    </message>
    <message>
        <source>Fit the selection</source>
        <translation>Auswahl einpassen</translation>
    </message>
    <message>
        <source>Zooms to the selected slice, else the area, else the whole step</source>
        <translation>Zeigt den gewählten Abschnitt, sonst die Fläche, sonst den ganzen Schritt</translation>
    </message>
    <message>
        <source>View before</source>
        <translation>Ansicht davor</translation>
    </message>
    <message>
        <source>View after</source>
        <translation>Ansicht danach</translation>
    </message>
    <message>
        <source>Add a marker</source>
        <translation>Marke setzen</translation>
    </message>
    <message>
        <source>Remove the marker nearby</source>
        <translation>Marke in der Nähe entfernen</translation>
    </message>
    <message>
        <source>Next slice</source>
        <translation>Nächster Abschnitt</translation>
    </message>
    <message>
        <source>Previous slice</source>
        <translation>Voriger Abschnitt</translation>
    </message>
    <message>
        <source>Along the arrow</source>
        <translation>Dem Pfeil nach</translation>
    </message>
    <message>
        <source>Back along the arrow</source>
        <translation>Dem Pfeil zurück</translation>
    </message>
    <message>
        <source>Highlight the microbatch</source>
        <translation>Mikrobatch hervorheben</translation>
    </message>
    <message>
        <source>Critical path</source>
        <translation>Kritischer Pfad</translation>
    </message>
    <message>
        <source>Marks the chain of slices that the length of the step rests on</source>
        <translation>Zeigt die Kette der Abschnitte, auf der die Länge des Schritts beruht</translation>
    </message>
    <message>
        <source>Search slices</source>
        <translation>Abschnitte suchen</translation>
    </message>
    <message>
        <source>Clear the selection</source>
        <translation>Auswahl aufheben</translation>
    </message>
    <message>
        <source>Row above</source>
        <translation>Zeile darüber</translation>
    </message>
    <message>
        <source>Row below</source>
        <translation>Zeile darunter</translation>
    </message>
    <message>
        <source>Page of rows up</source>
        <translation>Eine Seite Zeilen nach oben</translation>
    </message>
    <message>
        <source>Chooses the row there</source>
        <translation>Wählt die Zeile dort</translation>
    </message>
    <message>
        <source>Page of rows down</source>
        <translation>Eine Seite Zeilen nach unten</translation>
    </message>
    <message>
        <source>Fold the row</source>
        <translation>Zeile einklappen</translation>
    </message>
    <message>
        <source>Its queues or ranks are no longer shown one by one</source>
        <translation>Ihre Warteschlangen oder Ränge werden nicht mehr einzeln gezeigt</translation>
    </message>
    <message>
        <source>Unfold the row</source>
        <translation>Zeile ausklappen</translation>
    </message>
    <message>
        <source>Shows its queues or ranks</source>
        <translation>Zeigt ihre Warteschlangen oder Ränge</translation>
    </message>
    <message>
        <source>Fold or unfold the row</source>
        <translation>Zeile ein- oder ausklappen</translation>
    </message>
    <message>
        <source>Fold the queues of all ranks</source>
        <translation>Warteschlangen aller Ränge einklappen</translation>
    </message>
    <message>
        <source>Unfold the queues of all ranks</source>
        <translation>Warteschlangen aller Ränge ausklappen</translation>
    </message>
    <message>
        <source>Move the row up</source>
        <translation>Zeile nach oben</translation>
    </message>
    <message>
        <source>Move the row down</source>
        <translation>Zeile nach unten</translation>
    </message>
    <message>
        <source>Pin the row</source>
        <translation>Zeile anheften</translation>
    </message>
    <message>
        <source>Keeps it above the others; again: no longer</source>
        <translation>Hält sie über den anderen; noch einmal: nicht mehr</translation>
    </message>
    <message>
        <source>Zooms at the cursor, or in the middle</source>
        <translation>Am Zeiger, sonst in der Mitte</translation>
    </message>
    <message>
        <source>Moves a fifth of the time shown to the left</source>
        <translation>Um ein Fünftel der gezeigten Zeit nach links</translation>
    </message>
    <message>
        <source>Moves a fifth of the time shown to the right</source>
        <translation>Um ein Fünftel der gezeigten Zeit nach rechts</translation>
    </message>
    <message>
        <source>Shows the time that was shown before</source>
        <translation>Zeigt die Zeit, die vorher gezeigt war</translation>
    </message>
    <message>
        <source>Takes back a step to the view before</source>
        <translation>Nimmt einen Schritt zur Ansicht davor zurück</translation>
    </message>
    <message>
        <source>Puts a marker with a note at the cursor</source>
        <translation>Setzt eine Marke mit Notiz am Zeiger</translation>
    </message>
    <message>
        <source>Removes the marker nearest to the cursor</source>
        <translation>Entfernt die Marke, die dem Zeiger am nächsten ist</translation>
    </message>
    <message>
        <source>Selects it, in the chosen row</source>
        <translation>Wählt ihn, in der gewählten Zeile</translation>
    </message>
    <message>
        <source>Goes to the slice that the selected one&apos;s arrow leads to</source>
        <translation>Zum Abschnitt, zu dem der Pfeil des gewählten führt</translation>
    </message>
    <message>
        <source>Goes to the slice that the arrow comes from</source>
        <translation>Zum Abschnitt, von dem der Pfeil kommt</translation>
    </message>
    <message>
        <source>Highlights all slices of the selected one&apos;s microbatch; again: no longer</source>
        <translation>Hebt alle Abschnitte vom Mikrobatch des gewählten hervor; noch einmal: nicht mehr</translation>
    </message>
    <message>
        <source>Finds slices by name, kind or microbatch</source>
        <translation>Findet Abschnitte nach Name, Art oder Mikrobatch</translation>
    </message>
    <message>
        <source>Clears the selected slice, the area and the highlighted microbatch</source>
        <translation>Hebt den gewählten Abschnitt, die Fläche und den hervorgehobenen Mikrobatch auf</translation>
    </message>
    <message>
        <source>Chooses that row</source>
        <translation>Wählt diese Zeile</translation>
    </message>
    <message>
        <source>Folds or unfolds the chosen row</source>
        <translation>Klappt die gewählte Zeile ein oder aus</translation>
    </message>
    <message>
        <source>Shows one row for each rank</source>
        <translation>Zeigt eine Zeile für jeden Rang</translation>
    </message>
    <message>
        <source>Shows one row for each queue</source>
        <translation>Zeigt eine Zeile für jede Warteschlange</translation>
    </message>
    <message>
        <source>Puts it before the row above</source>
        <translation>Setzt sie vor die Zeile darüber</translation>
    </message>
    <message>
        <source>Puts it behind the row below</source>
        <translation>Setzt sie hinter die Zeile darunter</translation>
    </message>
</context>
<context>
    <name>orrery::TimelineView</name>
    <message>
        <source>stage</source>
        <translation>Stufe</translation>
    </message>
    <message>
        <source>data rank, stage</source>
        <translation>Datenrang, Stufe</translation>
    </message>
    <message>
        <source>stage, data rank</source>
        <translation>Stufe, Datenrang</translation>
    </message>
    <message>
        <source>tensor rank</source>
        <translation>Tensorrang</translation>
    </message>
    <message>
        <source>context rank</source>
        <translation>Kontextrang</translation>
    </message>
    <message>
        <source>expert rank</source>
        <translation>Expertenrang</translation>
    </message>
    <message>
        <source>nothing</source>
        <translation>nichts</translation>
    </message>
    <message>
        <source>Timeline of the current run</source>
        <translation>Zeitachse des aktuellen Laufs</translation>
    </message>
    <message>
        <source>Group ranks by</source>
        <translation>Ränge gruppieren nach</translation>
    </message>
    <message>
        <source>Filter rows</source>
        <translation>Zeilen filtern</translation>
    </message>
    <message>
        <source>Search slices (/): qkv mb:3</source>
        <translation>Abschnitte suchen (/): qkv mb:3</translation>
    </message>
    <message>
        <source>Search slices</source>
        <translation>Abschnitte suchen</translation>
    </message>
    <message>
        <source>Critical path</source>
        <translation>Kritischer Pfad</translation>
    </message>
    <message>
        <source>Marks the chain of slices that the length of the step rests on (C)</source>
        <translation>Die Kette der Abschnitte zeigen, auf der die Länge des Schritts beruht (C)</translation>
    </message>
    <message>
        <source>&amp;Group by</source>
        <translation>&amp;Gruppieren nach</translation>
    </message>
    <message>
        <source>Details of the selected slice</source>
        <translation>Einzelheiten des gewählten Abschnitts</translation>
    </message>
    <message>
        <source>Slice</source>
        <translation>Abschnitt</translation>
    </message>
    <message>
        <source>Contents of the selected area</source>
        <translation>Inhalt der gewählten Fläche</translation>
    </message>
    <message>
        <source>Drag over rows to choose an area.</source>
        <translation>Über Zeilen ziehen, um eine Fläche zu wählen.</translation>
    </message>
    <message>
        <source>Area</source>
        <translation>Fläche</translation>
    </message>
    <message>
        <source>Markers</source>
        <translation>Marken</translation>
    </message>
    <message>
        <source>No run is open. Open or drop a scenario or a trace.</source>
        <translation>Kein Lauf ist offen. Ein Szenario oder eine Aufzeichnung öffnen oder hierher ziehen.</translation>
    </message>
    <message>
        <source>Simulating %1 ..</source>
        <translation>Simuliert %1 ..</translation>
    </message>
    <message>
        <source>%1 has no timeline: it could not be simulated. See Problems.</source>
        <translation>%1 hat keine Zeitachse: es konnte nicht simuliert werden. Siehe Probleme.</translation>
    </message>
    <message>
        <source>%1 has no timeline.</source>
        <translation>%1 hat keine Zeitachse.</translation>
    </message>
    <message>
        <source>Counting ..</source>
        <translation>Zählt ..</translation>
    </message>
    <message>
        <source>%1 long, %L2 slices; times are unions of intervals, means over ranks</source>
        <translation>%1 in %L2 Abschnitten; Zeiten sind Vereinigungen von Intervallen, Mittel über Ränge</translation>
    </message>
    <message>
        <source>Looking for the critical path ..</source>
        <translation>Sucht den kritischen Pfad ..</translation>
    </message>
    <message>
        <source>No slice matches “%1”</source>
        <translation>Nichts wie „%1“</translation>
    </message>
    <message>
        <source>No more: from the start again</source>
        <translation>Wieder von vorn</translation>
    </message>
    <message>
        <source>note %1</source>
        <translation>Notiz %1</translation>
    </message>
    <message>
        <source>the current run has no timeline</source>
        <translation>der aktuelle Lauf hat keine Zeitachse</translation>
    </message>
    <message>
        <source>rank</source>
        <translation>Rang</translation>
    </message>
    <message>
        <source>queue</source>
        <translation>Warteschlange</translation>
    </message>
    <message>
        <source>slice</source>
        <translation>Abschnitt</translation>
    </message>
    <message>
        <source>kind</source>
        <translation>Art</translation>
    </message>
    <message>
        <source>cause</source>
        <translation>Ursache</translation>
    </message>
    <message>
        <source>microbatch</source>
        <translation>Mikrobatch</translation>
    </message>
    <message>
        <source>begin (s)</source>
        <translation>Beginn (s)</translation>
    </message>
    <message>
        <source>end (s)</source>
        <translation>Ende (s)</translation>
    </message>
    <message>
        <source>more than %L1 slices are shown: zoom in, or choose an area</source>
        <translation>mehr als %L1 Abschnitte sind zu sehen: hineinzoomen oder eine Fläche wählen</translation>
    </message>
    <message>
        <source>Group ranks by: %1</source>
        <translation>Ränge gruppieren nach: %1</translation>
    </message>
    <message>
        <source>Groups the rows of the timeline</source>
        <translation>Gruppiert die Zeilen der Zeitachse</translation>
    </message>
    <message>
        <source>%1 has no timeline: a trace of its step would be too large. Its figures are whole. For a timeline lower training.global_batch_size.</source>
        <translation>%1 hat keine Zeitachse: eine Aufzeichnung des Schritts wäre zu groß. Die Zahlen sind vollständig. Für eine Zeitachse training.global_batch_size verkleinern.</translation>
    </message>
</context>
<context>
    <name>orrery::TopologyView</name>
    <message>
        <source>Links</source>
        <translation>Verbindungen</translation>
    </message>
    <message>
        <source>Time: the leftmost place is all of the time shown</source>
        <translation>Zeit: ganz links ist alle gezeigte Zeit</translation>
    </message>
    <message>
        <source>Time</source>
        <translation>Zeit</translation>
    </message>
    <message>
        <source>%1 to %2 of %3</source>
        <translation>%1 bis %2 von %3</translation>
    </message>
    <message>
        <source>No link carries anything</source>
        <translation>Keine Verbindung trägt etwas</translation>
    </message>
    <message numerus="yes">
        <source>&lt;b&gt;%1&lt;/b&gt; limits: it is over four fifths full during %2 of the time (%n link(s) alike)</source>
        <translation>
            <numerusform>&lt;b&gt;%1&lt;/b&gt; begrenzt: sie ist während %2 der Zeit zu mehr als vier Fünfteln voll (%n gleiche)</numerusform>
            <numerusform>&lt;b&gt;%1&lt;/b&gt; begrenzt: sie ist während %2 der Zeit zu mehr als vier Fünfteln voll (%n gleiche)</numerusform>
        </translation>
    </message>
    <message>
        <source>No link is full for long: the busiest, &lt;b&gt;%1&lt;/b&gt;, reaches %2 of its capacity</source>
        <translation>Keine Verbindung ist lange voll: die vollste, &lt;b&gt;%1&lt;/b&gt;, erreicht %2 ihrer Kapazität</translation>
    </message>
    <message>
        <source>The step of this run sends nothing over the network&apos;s links: there is no load to draw</source>
        <translation>Der Schritt dieses Laufs sendet nichts über die Verbindungen des Netzes: es gibt keine Last zu zeichnen</translation>
    </message>
    <message>
        <source>The current run has no cluster: it is only a trace</source>
        <translation>Der aktuelle Lauf hat keinen Cluster: er ist nur eine Aufzeichnung</translation>
    </message>
    <message>
        <source>What workers send to servers, peers or the coordinator is not in a step: see the workers view and the report</source>
        <translation>Was Arbeiter an Server, Nachbarn oder den Koordinator senden, ist in keinem Schritt: siehe die Ansicht Arbeiter und den Bericht</translation>
    </message>
</context>
<context>
    <name>orrery::WelcomePage</name>
    <message>
        <source>How will this model train on that cluster?</source>
        <translation>Wie trainiert dieses Modell auf jenem Cluster?</translation>
    </message>
    <message>
        <source>Open a scenario, a sweep or a trace (or drop one here), or begin with an example. Change a field and the step is simulated again; pin one run as the baseline and compare others with it.</source>
        <translation>Ein Szenario, eine Reihe oder eine Aufzeichnung öffnen (oder hierher ziehen), oder mit einem Beispiel beginnen. Ein Feld ändern, und der Schritt wird neu simuliert; einen Lauf als Vergleichsbasis anheften und andere damit vergleichen.</translation>
    </message>
    <message>
        <source>Example scenarios</source>
        <translation>Beispielszenarien</translation>
    </message>
    <message>
        <source>  (a sweep)</source>
        <translation>  (eine Reihe)</translation>
    </message>
    <message>
        <source>E&amp;xamples (double-click, or Enter)</source>
        <translation>Beispie&amp;le (Doppelklick oder Eingabe)</translation>
    </message>
</context>
<context>
    <name>orrery::WholeRunPlot</name>
    <message>
        <source>The run&apos;s months, goodput over time and the curve of intervals</source>
        <translation>Die Monate des Laufs, Goodput über der Zeit und die Kurve der Abstände</translation>
    </message>
    <message>
        <source>Timeline of the first simulated run</source>
        <translation>Zeitstrahl des ersten simulierten Laufs</translation>
    </message>
    <message>
        <source>from day %1</source>
        <translation>ab Tag %1</translation>
    </message>
    <message>
        <source>Goodput so far: median, and p10 to p90 of the seeds</source>
        <translation>Goodput bis dahin: Median, und p10 bis p90 der Läufe</translation>
    </message>
    <message>
        <source>100 %</source>
        <translation>100 %</translation>
    </message>
    <message>
        <source>%1 %</source>
        <translation>%1 %</translation>
    </message>
    <message>
        <source>this run</source>
        <translation>dieser Lauf</translation>
    </message>
    <message>
        <source>Young</source>
        <translation>Young</translation>
    </message>
    <message>
        <source>Daly</source>
        <translation>Daly</translation>
    </message>
    <message>
        <source>%1%2
day %3, for %4</source>
        <translation>%1%2
Tag %3, für %4</translation>
    </message>
    <message>
        <source>Goodput by the interval between saves</source>
        <translation>Goodput nach dem Abstand der Sicherungen</translation>
    </message>
</context>
<context>
    <name>orrery::WholeRunView</name>
    <message>
        <source>The whole run</source>
        <translation>Der ganze Lauf</translation>
    </message>
    <message>
        <source>Time of the run by cause</source>
        <translation>Zeit des Laufs nach Ursache</translation>
    </message>
    <message>
        <source>No scenario is simulated here.</source>
        <translation>Hier ist kein Szenario simuliert.</translation>
    </message>
    <message>
        <source>This scenario is of one step. Give it &quot;run&quot;, as in {&quot;run&quot;: {&quot;days&quot;: 30}}, and its months are simulated.</source>
        <translation>Dieses Szenario ist das eines Schritts. Mit &quot;run&quot;, etwa {&quot;run&quot;: {&quot;days&quot;: 30}}, werden seine Monate simuliert.</translation>
    </message>
    <message>
        <source>The run is not simulated: its step does not fit in memory.</source>
        <translation>Der Lauf wird nicht simuliert: Sein Schritt passt nicht in den Speicher.</translation>
    </message>
    <message>
        <source>Simulating the run ..</source>
        <translation>Der Lauf wird simuliert ..</translation>
    </message>
    <message>
        <source>%1 (p10 %2, p90 %3)</source>
        <translation>%1 (p10 %2, p90 %3)</translation>
    </message>
    <message>
        <source>%1 simulated runs: %2, goodput %3 % (p10 %4, p90 %5); %6 interruptions a run, and %7 planned ones</source>
        <translation>%1 simulierte Läufe: %2, Goodput %3 % (p10 %4, p90 %5); %6 Unterbrechungen je Lauf, und %7 geplante</translation>
    </message>
</context>
<context>
    <name>orrery::WorkersView</name>
    <message>
        <source>Workers and clients</source>
        <translation>Arbeiter und Klienten</translation>
    </message>
    <message>
        <source>What workers and clients do</source>
        <translation>Was Arbeiter und Klienten tun</translation>
    </message>
    <message>
        <source>No run is open.</source>
        <translation>Kein Lauf ist offen.</translation>
    </message>
</context>
</TS>
