"""Claims as teams write them, in the languages that the estimate is measured on."""

# fmt: off
CLAIMS: dict[str, tuple[str, ...]] = {
    "English": (
        "Refunds above 500 EUR need the approval of a second person before the ledger is written.",
        "The parser drops a trailing comma silently, so a truncated file looks complete.",
        "VendorClient.reserve_budget retries three times with jitter, then raises BudgetUnavailable.",
        "Do not call flush() inside the commit hook: it deadlocks under two writers.",
    ),
    "German": (
        "Rückerstattungen über 500 EUR brauchen die Freigabe einer zweiten Person, bevor gebucht wird.",
        "Der Parser verschluckt ein abschließendes Komma, deshalb wirkt eine abgeschnittene Datei vollständig.",
        "Die Warteschlange wird nach dreißig Sekunden ohne Rückmeldung an einen anderen Arbeiter vergeben.",
        "Schlüssel dürfen niemals im Arbeitsverzeichnis liegen, sondern nur im Zustandsordner des Benutzers.",
    ),
    "French": (
        "Les remboursements de plus de 500 EUR exigent l'accord d'une deuxième personne avant l'écriture.",
        "L'analyseur ignore une virgule finale, si bien qu'un fichier tronqué paraît complet.",
        "La file d'attente rend la tâche à un autre travailleur après trente secondes de silence.",
        "Les clés ne doivent jamais se trouver dans le répertoire de travail du projet.",
    ),
    "Spanish": (
        "Los reembolsos de más de 500 EUR necesitan la aprobación de otra persona antes de asentarse.",
        "El analizador omite una coma final, por lo que un archivo truncado parece completo.",
        "La cola entrega la tarea a otro trabajador después de treinta segundos sin respuesta.",
        "Las claves nunca deben guardarse en el directorio de trabajo del proyecto.",
    ),
    "Portuguese": (
        "Reembolsos acima de 500 EUR precisam da aprovação de outra pessoa antes do lançamento.",
        "O analisador ignora uma vírgula final, e por isso um arquivo truncado parece completo.",
        "A fila devolve a tarefa a outro trabalhador depois de trinta segundos sem resposta.",
        "As chaves nunca devem ficar no diretório de trabalho do projeto.",
    ),
    "Italian": (
        "I rimborsi oltre 500 EUR richiedono l'approvazione di una seconda persona prima della scrittura.",
        "Il parser ignora una virgola finale, quindi un file troncato sembra completo.",
        "La coda assegna il compito a un altro processo dopo trenta secondi senza risposta.",
        "Le chiavi non devono mai trovarsi nella cartella di lavoro del progetto.",
    ),
    "Dutch": (
        "Terugbetalingen boven 500 EUR hebben de goedkeuring van een tweede persoon nodig.",
        "De parser laat een komma aan het eind stilzwijgend weg, dus een afgekapt bestand lijkt volledig.",
        "De wachtrij geeft de taak na dertig seconden zonder antwoord aan een andere werker.",
        "Sleutels horen nooit in de werkmap van het project te staan.",
    ),
    "Swedish": (
        "Återbetalningar över 500 EUR måste godkännas av en andra person innan de bokförs.",
        "Tolken hoppar över ett avslutande kommatecken, så en avkortad fil ser fullständig ut.",
        "Kön lämnar uppgiften till en annan arbetare efter trettio sekunder utan svar.",
        "Nycklar får aldrig ligga i projektets arbetskatalog.",
    ),
    "Polish": (
        "Zwroty powyżej 500 EUR wymagają zgody drugiej osoby przed zapisaniem w księdze.",
        "Parser pomija końcowy przecinek, więc obcięty plik wygląda na kompletny.",
        "Kolejka przekazuje zadanie innemu procesowi po trzydziestu sekundach bez odpowiedzi.",
        "Kluczy nigdy nie wolno przechowywać w katalogu roboczym projektu.",
    ),
    "Czech": (
        "Vrácení peněz nad 500 EUR musí před zápisem schválit druhá osoba.",
        "Parser tiše vynechá koncovou čárku, takže zkrácený soubor vypadá úplný.",
        "Fronta předá úlohu jinému procesu po třiceti sekundách bez odpovědi.",
        "Klíče nesmějí nikdy ležet v pracovním adresáři projektu.",
    ),
    "Turkish": (
        "500 EUR üzerindeki iadeler deftere yazılmadan önce ikinci bir kişinin onayını gerektirir.",
        "Ayrıştırıcı sondaki virgülü sessizce atar, bu yüzden kesilmiş bir dosya tam görünür.",
        "Kuyruk, otuz saniye yanıt alamazsa görevi başka bir işçiye verir.",
        "Anahtarlar hiçbir zaman projenin çalışma klasöründe durmamalıdır.",
    ),
    "Russian": (
        "Возвраты свыше 500 EUR требуют одобрения второго человека до записи в журнал.",
        "Парсер молча пропускает последнюю запятую, поэтому обрезанный файл выглядит полным.",
        "Очередь отдаёт задачу другому работнику после тридцати секунд молчания.",
        "Ключи никогда не должны лежать в рабочем каталоге проекта.",
    ),
    "Ukrainian": (
        "Повернення понад 500 EUR потребують схвалення другої особи перед записом у журнал.",
        "Парсер мовчки пропускає останню кому, тому обрізаний файл виглядає повним.",
        "Черга віддає завдання іншому працівникові після тридцяти секунд мовчання.",
        "Ключі ніколи не повинні лежати в робочій теці проєкту.",
    ),
    "Greek": (
        "Οι επιστροφές άνω των 500 EUR χρειάζονται την έγκριση δεύτερου προσώπου πριν από την εγγραφή.",
        "Ο αναλυτής παραλείπει σιωπηλά το τελευταίο κόμμα, οπότε ένα κομμένο αρχείο φαίνεται πλήρες.",
        "Η ουρά δίνει την εργασία σε άλλον εργάτη μετά από τριάντα δευτερόλεπτα σιωπής.",
        "Τα κλειδιά δεν πρέπει ποτέ να βρίσκονται στον φάκελο εργασίας του έργου.",
    ),
    "Chinese": (
        "超过 500 欧元的退款在记账之前需要第二个人批准。",
        "解析器会悄悄丢弃末尾的逗号，因此被截断的文件看起来是完整的。",
        "如果三十秒内没有响应，队列会把任务交给另一个工作进程。",
        "密钥绝不能放在项目的工作目录中。",
    ),
    "Japanese": (
        "500ユーロを超える返金は、帳簿に記録する前に別の担当者の承認が必要です。",
        "パーサーは末尾のカンマを黙って捨てるため、途中で切れたファイルでも完全に見えます。",
        "三十秒間応答がないと、キューは別のワーカーにタスクを渡します。",
        "鍵をプロジェクトの作業フォルダーに置いてはいけません。",
    ),
    "Korean": (
        "500유로를 넘는 환불은 장부에 기록하기 전에 다른 사람의 승인이 필요합니다.",
        "파서는 마지막 쉼표를 조용히 버리므로 잘린 파일도 완전해 보입니다.",
        "삼십 초 동안 응답이 없으면 대기열은 작업을 다른 작업자에게 넘깁니다.",
        "키는 절대로 프로젝트의 작업 폴더에 두면 안 됩니다.",
    ),
    "Arabic": (
        "تحتاج المبالغ المستردة التي تزيد على 500 يورو إلى موافقة شخص ثان قبل تسجيلها.",
        "يتجاهل المحلل الفاصلة الأخيرة بصمت، ولذلك يبدو الملف المقطوع كاملا.",
        "يسلم الطابور المهمة إلى عامل آخر بعد ثلاثين ثانية من دون رد.",
        "يجب ألا توضع المفاتيح أبدا في مجلد عمل المشروع.",
    ),
    "Hebrew": (
        "החזרים מעל 500 אירו דורשים אישור של אדם נוסף לפני הרישום ביומן.",
        "המנתח משמיט בשקט את הפסיק האחרון, ולכן קובץ קטוע נראה שלם.",
        "התור מעביר את המשימה לעובד אחר אחרי שלושים שניות ללא תשובה.",
        "אסור שמפתחות יימצאו בתיקיית העבודה של הפרויקט.",
    ),
    "Hindi": (
        "500 यूरो से अधिक की वापसी के लिए बही में लिखने से पहले दूसरे व्यक्ति की मंज़ूरी चाहिए।",
        "पार्सर अंतिम अल्पविराम को चुपचाप छोड़ देता है, इसलिए कटी हुई फ़ाइल पूरी लगती है।",
        "तीस सेकंड तक उत्तर न मिलने पर कतार काम किसी दूसरे को दे देती है।",
        "कुंजियाँ कभी भी परियोजना के कार्य फ़ोल्डर में नहीं होनी चाहिए।",
    ),
    "Vietnamese": (
        "Các khoản hoàn tiền trên 500 EUR cần một người thứ hai phê duyệt trước khi ghi sổ.",
        "Bộ phân tích lặng lẽ bỏ qua dấu phẩy cuối, nên tệp bị cắt vẫn trông đầy đủ.",
        "Hàng đợi giao nhiệm vụ cho tiến trình khác sau ba mươi giây không có phản hồi.",
        "Khóa không bao giờ được nằm trong thư mục làm việc của dự án.",
    ),
}
# fmt: on
