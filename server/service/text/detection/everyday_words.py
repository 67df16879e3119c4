"""Words that everyday texts are made of, by language: evidence where a text is too short for its spelling."""

_WORDS = {
    "en": """\
a able about accident account add address afraid after afternoon again ago airport all almost alone already
always am an and another answer any anymore anyone anything apple april are aren around as ask asked at
attention august aunt autumn away back bad bathroom be beautiful because bed bedroom been beer before being
believe best better bicycle big bird birthday black blue book books both bought boy bread breakfast brother
brown bus busy but butter buy by bye call called came can cancel car care careful cart cat change cheap
checkout cheers cheese child children christmas city close coffee cold come coming congratulations contact
continue copy could couldn country daughter day days dear december delete did didn died difficult dinner do
doctor does doesn dog doing don done door down download drink each ear early easter easy eat edit egg eggs
eight else email english enough error even evening ever every everybody everyone everything excuse expensive
eye family far fast father february feel few file find fine first fish five flower folder follow food foot
for found four french friday friend friends from fun garden gave gentlemen get getting girl give go going
good goodbye got great green guys had hand happen happened happy hard has have haven he head hear heard
heart hello help her here hey hi him himself his home hope horse hospital hot hotel hours house how hundred
hungry hurt i idea if important in into is isn it its january job july june just keep key kind kitchen knew
know knows ladies language last late learn leave left let letter life like likes listen little live lives
loading login logout long look looked looking looks lost lot love luck lunch madam made make man many march
market married matter may me meat meet meeting menu merry met might milk mind mine minutes monday money more
morning most mother mouth much must my myself name need neighbor neighbour never new next nice night nine no
nobody nose not nothing november now number nurse october of off office often ok okay old on once one only
open or order other our out over own pardon parents party password paste pay payment people person phone
place plan plane play please police pretty previous price print privacy problem profile put question quite
rain read reading ready really red regards remember remove right road room said salt same saturday save saw
say says school search second see seems seen sell send september settings seven share she shop short should
shouldn show sign since sincerely sir sister six sleep slow small snow so some someone something son soon
sorry speak spring start started station stay still stop store street student students study submit such
sugar summer sun sunday sure take talk talking tea teacher tell ten terms than thank thanks that the their
them there these they thing things think third thirsty this those thought thousand three thursday ticket
time tired to today together toilet toilets told tomorrow too took town train tree tried true truth try
trying tuesday turn two ugly uncle understand until up upload us use used username very village wait waiting
walk want wanted wants warm warning was wasn watch water way we weather wednesday week welcome well went
were what when where which while white who why wife will window wine winter wish with without woman won word
work working world would wouldn write wrong year years yellow yes yesterday yet you young your yourself
""",
    "de": """\
ab abbrechen abend abendessen aber abmelden acht achtung adresse alle allein alles als alt am an andere
anderen angst anmelden apfel appetit april arbeit arbeiten arzt auch auf auge augen august aus ausgang auto
bad bahnhof bald bat baum bearbeiten bei beide beim bekommen benutzername beschäftigt besser besserung
bestellung bett bezahlen bier billig bin bis bist bitte blau bleiben blume brauche brauchen braucht braun
brief bringen brot bruder buch bus butter bücher da dachte dafür damen damit danke danken dann daran darauf
darf darüber das dass datei datenschutz davon dazu dein deine deinen dem den denke denn der des dezember
dich die dienstag dies diese diesem diesen dieser dieses dir doch donnerstag dorf dort drei dritte drucken
du durch durst ei eier ein eine einem einen einer eines einfach einfügen eingang einige einmal eins
einstellungen elf eltern englisch entfernen entschuldigung er erfolg erste es essen etwas euch eure fahren
fahrkarte fahrrad familie fast februar fehler fenster fertig finden fisch fleisch flughafen flugzeug folgen
fortfahren frage fragen fragte französisch frau freitag freund freunde freundin freut frohe frohes früh
früher frühling frühstück fuß fünf für gab ganz ganze ganzen gar garten geben geburtstag geehrte geehrter
gefallen gefunden gefällt gegangen gegessen geh gehe gehen geht gehört gekauft gekommen gelb geld gemacht
genau genug gerade gern gerne gesagt geschehen geschichte geschäft gesehen gestern gesundheit getan gewesen
gib gibt ging glaube glauben glück glücklich glückwunsch glückwünsche gott gratuliere groß große gruß grün
grüß grüße gut gute guten guter gutes habe haben habt hallo halt hand hast hat hatte haus hause heiß heiße
heißt helfen herbst herr herren herunterladen herz herzlich herzlichen heute hi hier hilfe hin hinzufügen
hochladen hoffe hotel hund hundert hunger hässlich hätte hättest hören hörte ich ihm ihn ihnen ihr ihre
ihren ihrer im immer in ins ist ja jahr jahre jahren januar je jeden jeder jemand jetzt juli jung junge juni
kaffee kalt kam kann kannst kasse katze kaufen kaum kein keine keinen kenne kind kinder klar klein komm
kommen kommst kommt konnte kontakt konto kopf kopieren kostet krankenhaus kunde kunden kurz käse können
könnte küche laden land lang lange langsam lass lassen leben lehrer lehrerin leicht leid lernen lesen letzte
letzten leute liebe lieber links los löschen machen macht mag mahlzeit mai mal man mann markt mehr mein
meine meinem meinen meiner menschen menü mich milch mir mit mittagessen mittwoch moin montag morgen mund
muss musst mutter mädchen märz möchte möchtest müde müssen nach nachbar nachbarin nacht nahm namen nase
natürlich nehmen nein neu neue neuen neujahr neun nicht nichts nie niemand noch november nummer nur ob oben
oder oft ohne ohr oktober onkel ordner ostern paar pass passiert passwort pferd preis problem profil prost
recht rechts reden regen rot sagen sagt sagte sah salz samstag schauen scheint schlafen schlafzimmer
schließen schlüssel schnee schnell schon schreiben schule schwarz schwer schwester schwimmen schön schüler
sechs sehen sehr sei seid sein seine seinem seinen seiner seit selbst senden september servus setz sich
sicher sie sieben sieht sind so sohn soll sollen sollte sollten solltest sommer sonnabend sonne sonntag spaß
speichern spielen sprache sprechen spricht spät später stadt starten startseite steht stimmt stopp straße
stunden suche suchen tag tage tante tausend tee teilen teuer tochter toilette toiletten treffen trinken
tschau tschüs tschüss tun tut tür uhr um und uns unser unsere unten unter vater vergessen verkaufen verloren
verstehe verstehen verzeihung viel viele vielen vielleicht vier vogel vom von vor vorsicht wagen wahr
wahrheit wann war waren warenkorb warm warnung warte warten warum was wasser weg weihnachten weil wein
weiter weiß weißt welche welcher welt wenn wer werde werden wetter wie wieder wiederhören wiedersehen will
willkommen willst winter wir wird wirklich wirst wissen wo woche woher wohl wollen wollte worden wurde
wusste wäre wünschte würde würdest zahlung zehn zeit ziemlich zimmer zu zucker zug zum zur zurück zusammen
zwei zweite zwölf ärztin öffnen über überhaupt
""",
    "fr": """\
a accident accord accueil acheter acheté adore adresse ai aide aider aime aimer aimerais air ajouter aller
allez allons allé allô alors ami amie amis anglais anniversaire annuler année ans août appelle apprendre
appétit après arbre argent arrive arrivé arrêter arrêtez as asseyez asseyons assez attendez attendre attends
attention au aucun aucune aurais aussi automne autre autres aux avais avait avant avec avertissement avez
avion avoir avons avril aéroport bas beau beaucoup belle besoin beurre bien bientôt bienvenue billet bière
blanc blanche bleu bleue boire bon bonjour bonne bonsoir bouche bravo bureau bus café ce ceci cela cent ces
cet cette chambre chance chaque chargement chat chaud chaude cher chers cheval chez chien chose choses chère
chéri chérie ci cinq clef client cliente clients clé coller colère combien commande commander comme comment
comprends compte confidentialité connais connecter connexion contact continuer copier cordialement coucou
coup courage court croire crois cuisine cœur dans davantage de demain demande demandé depuis dernière des
deux deuxième devez devons devrais devrait devriez devrions difficile dimanche dire dis dit dites dix dois
doit donné dont dormir dossier douze droite du décembre déconnexion déjeuner déjà démarrer désolé désolée
dîner dû eau elle elles en enchanté enchantée encore enfant enfants enregistrer ensemble entendre entendu
entre entrer entrez entrée envie envoyer erreur es espère essayer est et eu excuse excusez facile faim faire
fais fait faites famille fatigué fatiguée faut femme fenêtre ferais fermer fichier fille fils fini fleur
fois fort français froid froide fromage frère fut félicitations février fête gare garçon gauche gens grand
grande habite haut heure heures heureux hier histoire hiver homme huit hôpital hôtel ici idée ignore il ils
imprimer jamais janvier jardin jaune je jeudi jeune jouer jour journée jours joyeuse joyeux juillet juin
juste la laid laisse laissez lait langue le lent lentement les lettre leur leurs lire lit livre livres long
longtemps longue lorsque lui lundi là ma madame mademoiselle magasin mai main maintenant mais maison mal
malade manger mangé marché mardi mars matin mauvais me merci mercredi mes mesdames messieurs midi mieux
mille mis modifier moi moins moment mon monde monsieur mort mot mère médecin météo même nager ne neige neuf
nez noir noire nom non notre nous nouveau nouvelle novembre noël nuit numéro occupé octobre oiseau on oncle
ont onze oreille ou ouais oui ouvrir où paiement pain panier par paramètres parce pardon parents parle
parler part partager partie partir pas passe passer passé payer pays pendant pensais pense penses pensez
pensé perdu personne personnes petit petite peu peur peut peux photo pied pièce plaît pluie plus point
poisson pomme porte pour pourquoi pourrais pourrait pouvez pouvoir pouvons premier première prendre presque
prie printemps pris prix problème professeur profil propos précédent pu puis pâques père quand quatre que
quel quelle quelque quelques question qui quoi raison recherche rechercher regarder rendre reste rester
retard retirer retour revoir rien rouge route rue sa sais sait salle salut samedi sans santé savais savez
savoir se secours sel semaine semble sens sept septembre sera serait ses seul seule seulement si simplement
six soif soin soir soirée sois soit soleil sommes son sont sortie sortir souhaits souvent soyez sucre suis
suivant suivante suivre sujet supprimer sur sûr sœur ta tante tard tchin te tellement temps terminé tes thé
toi toilettes ton toujours tous tout toute toutes train travail travailler trois trop trouve trouver trouvé
très tu télécharger téléphone tête tôt un une utilisateur va vais vas vendre vendredi venez venir venu vert
verte veuillez veut veux viande vie vieille viens vieux village ville vin vite vivre voici voilà voir vois
voisin voisine voiture vos votre voudrais voulais voulait voulez vous vrai vraiment vu vélo vérité y yeux à
ça école écouter écrire élève étaient étais était étiez étudiant été êtes être œil œuf œufs
""",
    "es": """\
a abajo abierto abril abrir accidente acerca acuerdo adelante adiós advertencia aeropuerto agosto agregar
agua ahora ahí ajustes al algo alguien alguna algunas algunos algún allí almuerzo alto alumno amarillo amiga
amigas amigo amigos anoche anterior antes aprender aquí archivo arriba así atención atentamente atrás auto
autobús aviso avión ayer ayuda ayudar azul azúcar añadir año años aún barato bastante baño baños beber
bicicleta bien bienvenida bienvenido bienvenidos billete blanca blanco boca bonita bonito borrar buen buena
buenas bueno buenos buscar búsqueda caballo cabeza cada café caliente calle calor cama camino cancelar
cansada cansado cargando carne caro carpeta carretera carrito carro carta casa casi cena cerca cerrado
cerrar cerveza chao chica chico cien cinco ciudad claro clase cliente clientes coche cocina colegio comer
comida como compartir comprar compró con configuración conmigo conozco contacto contigo continuar contraseña
copiar corazón correo corto cosa cosas crees creo cuando cuatro cuenta cuidado cumpleaños cuál cuándo cuánto
cuídate cómo dar de debe debería deberías debes decir dejar dejó del demasiado derecha desayuno descargar
desde despacio después dice dicho diciembre diez difícil dije dijo dinero dio dirección disculpa disculpe
doce doctor domingo donde dormir dormitorio dos durante día días dónde editar el eliminar ella ellos empezar
en encantada encantado encontrar enero enhorabuena entiendo entrada entre enviar era eran eres error es esa
esas escribir escuchar escuela ese eso espera esperando esperar espere espero esta estaba estaban estación
estado estamos estar este estimada estimado esto estos estoy estudiante estudiantes estudiar estuvo está
están estás familia favor febrero felicidades felicitaciones feliz feo fiesta flor francés frío fue fuera
fueron fuerte fui fácil gato gente gracias gran grande guardar gusta gustan gustar gustaría gusto ha haber
habitación habla hablando hablar había hace hacer hacerlo haciendo hambre han has hasta hay he hecho hermana
hermano hermosa hermoso hice hija hijo hijos historia hizo hola hombre hora horas hospital hotel hoy huevo
huevos idea idioma imprimir inglés iniciar inicio invierno ir izquierda jardín joven jueves jugar julio
junio juntos la lado lamento largo las le leche leer lento les libro libros listo llamas llamo llave llaves
llegar llegó lluvia lo los luego lugar lunes madre mal mano mantequilla manzana martes marzo maría mayo
mayor mañana me mejor menos menudo menú mercado mes mesa mi miedo mientras mil minutos mirar mis mismo
miércoles momento mucha muchacho muchas mucho muchos mujer mundo murió muy más médico mí música nada nadar
nadie nariz navidad necesita necesito negra negro ni nieve niña niño niños no noche noches nombre nos
nosotros noviembre nuestra nuestro nueva nueve nuevo nunca número o ocho octubre ocupado oficina oiga ojo
ojos once oreja otoño otra otro oye padre padres pagar pago pan para parar parece parte pasa pasado pasar
pascua pasó país pedido pegar película pensé pequeña pequeño perdone perdón perfil pero perro persona
personas pescado pidió pie pienso poco podemos podría podrías podía policía por porque precio pregunta
preguntó primavera primera primero privacidad problema problemas profesor profesora pronto provecho pudo
pueblo puede puedes puedo puerta punto puso pájaro que querida querido quería queso quiere quieres quiero
quisiera quitar quizá quizás quién qué razón realmente reunión roja rojo rápido sabe saber sabes sabía sal
salida salir salud saludos se sea sed seguir segundo seguro seis semana septiembre ser será sería sesión
señor señora señoras señores señorita si sido siempre siento siete siguiente sin siéntate siéntese sobre
socorro sol solo somos son soy su subir suerte suficiente supuesto sus sábado sé sí sólo tal también tan
tanto tarde tardes te televisión teléfono temprano tenemos tener tengo tenía tercero ti tiempo tienda tiene
tienen tienes tipo toda todas todavía todo todos tomar trabajar trabajo tren tres tu tus tuve tuvo té tía
tío tú un una uno unos usted ustedes usuario va vale vamos vas veces vecina vecino ven vender venir ventana
ver verano verdad verde vez vi viaje vida vieja viejo viene viernes vino vio visto vive vivir volver voy
vuestra vámonos y ya yo zapatos árbol él última
""",
}  # fmt: skip

COMMON_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split()) for language, words in _WORDS.items()
}
"""About 600 words of each shipped language in small letters.

They are the 400 commonest ones of everyday sentences, greetings, days, numbers, things of the household and
words of user interfaces. Words of two languages stand in both.
"""
